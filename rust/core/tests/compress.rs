//! Compressed bodies: what comes out is what went in, or an error.

use std::fmt::Write as _;
use std::sync::Arc;

use ctrlhost_core::compress::{Codec, Samples};
use ctrlhost_core::json::path::Step;
use ctrlhost_core::object::{Builder, Object};

fn pod(number: usize) -> Object {
    let mut settings = String::new();
    for setting in 0..20 {
        let _ = write!(
            settings,
            r#"{{"name":"SETTING_{setting}","value":"{}"}},"#,
            setting * number % 97
        );
    }
    let text = format!(
        r#"{{"metadata":{{"name":"pod-{number}","uid":"u{number}","resourceVersion":"{number}","labels":{{"app":"a{}"}}}},"spec":{{"env":[{settings}{{}}]}}}}"#,
        number % 7
    );
    Builder::new("v1", "Pod")
        .parse(text.as_bytes())
        .expect("a pod")
}

fn codec() -> Arc<Codec> {
    let pods: Vec<_> = (0..400)
        .map(|number| pod(number).json().expect("plain").into_owned())
        .collect();
    let bodies: Vec<_> = pods.iter().map(String::as_bytes).collect();
    let samples = Samples::draw(&bodies).expect("enough samples");
    Arc::new(Codec::learn(&samples).expect("compressing pays"))
}

#[test]
fn a_compressed_object_is_what_it_was() {
    let codec = codec();
    let plain = Arc::new(pod(1_000));
    let packed = Arc::new(plain.pack(&codec).expect("a large body"));
    assert!(packed.is_packed() && !plain.is_packed());
    assert!(packed.memory().body * 4 < packed.plain_len());
    assert_eq!(packed.plain_len(), plain.plain_len());
    assert_eq!(packed.json(), plain.json());
    assert_eq!(
        (packed.uid(), packed.labels()),
        (plain.uid(), plain.labels())
    );
    assert!(packed.has_equal_bytes(&plain) && plain.has_equal_bytes(&packed));
    assert!(*packed == *plain && *packed != pod(1_001));
    let env = ["spec", "env"].map(|name| Step::Key(name.into()));
    assert_eq!(packed.find(&env), plain.find(&env));
    let again = packed.plain().expect("no damage");
    assert!(!again.is_packed() && *again == *plain);
    assert_eq!(again.labels(), plain.labels());
    assert!(packed.pack(&codec).is_none());
}

// behaviour: scale/SC99
#[test]
fn no_bit_of_a_frame_can_be_changed_unnoticed() {
    let packed = pod(1_000).pack(&codec()).expect("a large body");
    let whole = packed.json().expect("no damage").into_owned();
    let bits = packed.memory().body * 8;
    let mut errors = 0;
    for bit in 0..bits {
        let falsified = packed.falsified(bit).expect("a frame");
        assert_eq!(falsified.uid(), packed.uid());
        match falsified.json() {
            Ok(text) => assert_eq!(text, whole, "bit {bit}"),
            Err(error) => {
                errors += 1;
                assert_eq!(
                    error.to_string(),
                    "the cached state of Pod pod-1000 is damaged"
                );
                assert!(falsified.find(&[Step::Key("spec".into())]).is_err());
            }
        }
    }
    assert!(errors > bits / 2, "{errors} of {bits}");
}

// behaviour: scale/SC89
#[test]
fn compressing_ends_for_good_where_it_saves_too_little() {
    let codec = codec();
    let mut state = 1_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                [state as usize >> 26],
        )
    };
    let alike = pod(1_000);
    assert!(alike.pack(&codec).is_some());
    let mut noisy = || {
        let noise: String = (0..4_000).map(|_| letter()).collect();
        let text = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"noise":"{noise}"}}}}"#);
        let object = Builder::new("v1", "Pod").parse(text.as_bytes());
        object.expect("an object").pack(&codec).is_some()
    };
    let packed = (0..1_000).filter(|_| noisy()).count();
    assert!(packed > 0 && packed < 1_000, "{packed} of 1,000");
    assert!(alike.pack(&codec).is_none());
}
