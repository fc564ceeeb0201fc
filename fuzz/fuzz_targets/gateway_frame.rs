#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::gateway_frame(data));
