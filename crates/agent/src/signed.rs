//! One signature, three spellings: as the cores see it, as `pki` checks it, as the wire carries it.

use model::frame::Signed;

pub fn to_pki(signed: &Signed) -> pki::Signed {
    let Signed { body, kid, chain, signature } = signed.clone();
    pki::Signed { body, kid, chain, signature }
}

pub fn from_pki(signed: pki::Signed) -> Signed {
    let pki::Signed { body, kid, chain, signature } = signed;
    Signed { body, kid, chain, signature }
}

pub fn to_wire(signed: pki::Signed) -> proto::v1::Signed {
    let pki::Signed { body, kid, chain, signature } = signed;
    proto::v1::Signed { body, kid, chain, signature }
}

pub fn from_wire(signed: proto::v1::Signed) -> pki::Signed {
    let proto::v1::Signed { body, kid, chain, signature } = signed;
    pki::Signed { body, kid, chain, signature }
}
