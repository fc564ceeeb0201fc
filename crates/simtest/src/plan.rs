//! What a seed decides before a world begins: how big it is, how long it lasts, and how badly things go.
//! Most worlds suffer a little of everything; some suffer one thing much.

use rand::Rng;
use rand::rngs::SmallRng;

#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: usize,
    pub gateways: usize,
    /// How long faults and new work go on, milliseconds.
    pub active_ms: u64,
    /// Mean pause between what the API's client does, milliseconds.
    pub api_every_ms: u64,
    /// Mean pause between faults, milliseconds.
    pub fault_every_ms: u64,
    /// Mean pause between what a lying gateway adds, milliseconds; `None` for an honest one.
    pub lie_every_ms: Option<u64>,
    /// Of 10,000 outputs of a daemon, how many find it dead.
    pub die_per_10k: u32,
    /// Of 1,000 frames, how many find their connection cut.
    pub cut_per_1k: u32,
    /// Of 1,000 store operations, how many fail, and how many lose their answer.
    pub store_fails_per_1k: u32,
    pub store_unknown_per_1k: u32,
    /// Of 100 hints, how many are lost.
    pub hints_lost_per_100: u32,
    pub latency_ms: u64,
    pub disk_ms: u64,
    pub store_ms: u64,
    pub work_ms: u64,
    /// Journal bounds of each node.
    pub journal_bytes: u64,
    pub journal_events: u32,
    /// Results are near their bound.
    pub big_results: bool,
    pub tenant_controlled: bool,
    pub awaits_approvers: bool,
    /// Seven days pass at once in the middle.
    pub leaps: bool,
    /// Many commands wait for a spec that comes late.
    pub floods: bool,
    /// The boot clocks of hosts run off by up to this many parts per million.
    pub drift_ppm: i64,
}

impl Plan {
    pub fn of(rng: &mut SmallRng) -> Self {
        let calm = rng.random_ratio(1, 6);
        let scale = |rng: &mut SmallRng, most: u32| if calm { 0 } else { rng.random_range(0..=most) };
        let lies = rng.random_ratio(2, 5);
        let small_journal = rng.random_ratio(1, 4);
        let floods = rng.random_ratio(1, 40);
        Self {
            nodes: rng.random_range(1..=3),
            gateways: rng.random_range(1..=2),
            active_ms: rng.random_range(30_000..150_000),
            api_every_ms: rng.random_range(800..6_000),
            fault_every_ms: if calm { 60_000 } else { rng.random_range(3_000..25_000) },
            lie_every_ms: (lies || floods).then(|| rng.random_range(400..5_000)),
            die_per_10k: scale(rng, 60),
            cut_per_1k: scale(rng, 12),
            store_fails_per_1k: scale(rng, 60),
            store_unknown_per_1k: scale(rng, 20),
            hints_lost_per_100: scale(rng, 60),
            latency_ms: [2, 20, 150, 1_500][rng.random_range(0..4)],
            disk_ms: [1, 5, 40, 800][rng.random_range(0..4)],
            store_ms: [1, 10, 100, 700][rng.random_range(0..4)],
            work_ms: [20, 500, 4_000, 15_000][rng.random_range(0..4)],
            journal_bytes: if small_journal { rng.random_range(8 << 10..64 << 10) } else { 4 << 20 },
            journal_events: if small_journal { rng.random_range(4..24) } else { 2_000 },
            big_results: rng.random_ratio(1, 60),
            tenant_controlled: rng.random_ratio(1, 15),
            awaits_approvers: rng.random_ratio(1, 20),
            leaps: rng.random_ratio(1, 20),
            floods,
            drift_ppm: [0, 100, 2_000][rng.random_range(0..3)],
        }
    }
}
