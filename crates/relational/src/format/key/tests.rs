use super::*;
use crate::types::Numeric;
use proptest::prelude::*;
use std::cmp::Ordering;

fn numeric() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        (any::<i64>(), 0i64..8)
            .prop_map(|(digits, scale)| Numeric::new(digits.into(), scale).unwrap()),
        (-20i64..20, 0i64..3)
            .prop_map(|(digits, scale)| Numeric::new(digits.into(), scale).unwrap()),
        (any::<i32>(), 0usize..40).prop_map(|(digits, zeros)| {
            format!("{digits}{}", "0".repeat(zeros)).parse().unwrap()
        }),
        Just(Numeric::NaN),
        Just(Numeric::Infinity),
        Just(Numeric::NegativeInfinity),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\u{1}\u{7f}\u{ff}]{0,4}", "\\PC{0,6}"]
}

/// A type with values of it.
fn typed(nested: bool) -> BoxedStrategy<(DataType, Vec<Value>)> {
    fn values<S: Strategy<Value = Value> + 'static>(
        data_type: DataType,
        value: S,
    ) -> BoxedStrategy<(DataType, Vec<Value>)> {
        prop::collection::vec(value, 2).prop_map(move |values| (data_type.clone(), values)).boxed()
    }
    let floats = prop_oneof![any::<f64>(), Just(f64::NAN), Just(0.0), Just(-0.0), -2.0..2.0];
    let small = prop_oneof![any::<i64>(), -300i64..300, Just(i64::MIN), Just(i64::MAX)];
    let interval = (-100i32..100, -3000i32..3000, any::<i32>());
    let mut kinds = vec![
        values(DataType::Bool, any::<bool>().prop_map(Value::Bool)),
        values(DataType::Int2, any::<i16>().prop_map(Value::Int2)),
        values(DataType::Int4, any::<i32>().prop_map(Value::Int4)),
        values(DataType::Int8, small.clone().prop_map(Value::Int8)),
        values(DataType::Float4, any::<f32>().prop_map(Value::Float4)),
        values(DataType::Float8, floats.prop_map(Value::Float8)),
        values(DataType::Numeric(None), numeric().prop_map(Value::Numeric)),
        values(DataType::Text, text().prop_map(Value::text)),
        values(
            DataType::Bytea,
            prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..5)
                .prop_map(|bytes| Value::Bytea(bytes.into())),
        ),
        values(DataType::Uuid, any::<[u8; 16]>().prop_map(Value::Uuid)),
        values(DataType::Date, any::<i32>().prop_map(Value::Date)),
        values(DataType::Timestamp, small.clone().prop_map(Value::Timestamp)),
        values(DataType::TimestampTz, small.clone().prop_map(Value::TimestampTz)),
        values(DataType::Time, small.prop_map(Value::Time)),
        values(DataType::Oid, any::<u32>().prop_map(Value::Oid)),
        values(
            DataType::Interval,
            interval.prop_map(|(months, days, micros)| Value::Interval {
                months,
                days,
                micros: micros.into(),
            }),
        ),
    ];
    if nested {
        let arrays = typed(false).prop_flat_map(|(element, values)| {
            let value = prop_oneof![Just(Value::Null), prop::sample::select(values)];
            let of = element.clone();
            let array = prop::collection::vec(value, 0..4)
                .prop_map(move |values| Value::Array(Arc::new(Array::of(of.clone(), values))));
            let data_type = DataType::Array(Box::new(element));
            prop::collection::vec(array, 2).prop_map(move |values| (data_type.clone(), values))
        });
        kinds.push(arrays.boxed());
    }
    proptest::strategy::Union::new(kinds).boxed()
}

/// A part of a key with two values, which may be NULL if the part may.
fn part() -> impl Strategy<Value = (KeyPart, [Value; 2])> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), 0u8..6);
    (typed(true), flags).prop_map(|((data_type, values), flags)| {
        let (descending, nulls_first, nullable, null) = flags;
        let part = KeyPart { data_type, descending, nulls_first, nullable };
        let mut values = [values[0].clone(), values[1].clone()];
        if nullable && null < 2 {
            values[null as usize] = Value::Null;
        }
        (part, values)
    })
}

/// The order of two values of a part.
fn compare(part: &KeyPart, left: &Value, right: &Value) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if part.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) => compare(part, right, left).reverse(),
        (false, false) if part.descending => right.cmp(left),
        (false, false) => left.cmp(right),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn bytes_order_as_values_do_and_come_back(parts in prop::collection::vec(part(), 1..4)) {
        let codec = KeyCodec::new(7, parts.iter().map(|(part, _)| part.clone()).collect());
        let values = |at: usize| parts.iter().map(move |(_, values)| &values[at]);
        let keys = [0, 1].map(|at| codec.encode(values(at)).unwrap());
        let orders = parts.iter().map(|(part, [left, right])| compare(part, left, right));
        let want = orders.fold(Ordering::Equal, Ordering::then);
        prop_assert_eq!(keys[0].cmp(&keys[1]), want);
        for at in [0, 1] {
            let mut with_rest = keys[at].clone();
            with_rest.extend_from_slice(b"rest");
            let (decoded, rest) = codec.decode(&with_rest).unwrap();
            prop_assert_eq!(rest, b"rest");
            for (back, value) in decoded.iter().zip(values(at)) {
                prop_assert_eq!(back, value);
            }
            // Keys that begin with some values are one range.
            for count in 0..parts.len() {
                let prefix = codec.encode(values(at).take(count)).unwrap();
                prop_assert!(keys[at].starts_with(&prefix));
                prop_assert!(after_prefix(&prefix).is_none_or(|end| keys[at] < end));
            }
        }
    }

    #[test]
    fn damaged_keys_are_errors(
        (part, [value, _]) in part(),
        cut in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let codec = KeyCodec::new(7, vec![part]);
        let mut key = codec.encode([&value]).unwrap();
        let at = cut.index(key.len());
        prop_assert!(codec.decode(&key[..at]).is_err());
        key[at] ^= 1 << bit;
        let _ = codec.decode(&key);
    }
}

#[test]
fn keys_are_frozen() {
    let part = |data_type, descending, nullable| KeyPart {
        data_type,
        descending,
        nulls_first: false,
        nullable,
    };
    let codec = KeyCodec::new(
        1,
        vec![
            part(DataType::Int4, false, false),
            part(DataType::Text, false, true),
            part(DataType::Int8, true, true),
            part(DataType::Numeric(None), false, true),
            part(DataType::Bytea, false, true),
            part(DataType::Bool, false, true),
        ],
    );
    let values = [
        Value::Int4(-2),
        Value::text("ab"),
        Value::Int8(300),
        Value::Numeric("-12.5".parse().unwrap()),
        Value::Bytea(vec![0, 9].into()),
        Value::Null,
    ];
    let key = codec.encode(&values).unwrap();
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let want = "0001 7efe 02616200 027dfed3 02027efdf2ccff 0200ff090001 03";
    assert_eq!(hex, want.replace(' ', ""));
}

#[test]
fn long_keys_and_types_without_order_are_refused() {
    let codec = KeyCodec::new(1, vec![KeyPart::ascending(DataType::Text)]);
    let long = Value::text("x".repeat(KEY_BYTES_MAX));
    assert_eq!(codec.encode([&long]).unwrap_err().state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert_eq!(
        codec.encode([&Value::text("a\0b")]).unwrap_err().state,
        SqlState::CHARACTER_NOT_IN_REPERTOIRE
    );
    let codec = KeyCodec::new(1, vec![KeyPart::ascending(DataType::Jsonb)]);
    let error = codec.encode([&Value::Jsonb("1".into())]).unwrap_err();
    assert_eq!(error.state, SqlState::FEATURE_NOT_SUPPORTED);
}
