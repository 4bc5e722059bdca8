//! Round trips, bytes that must never change, and damage of every byte.

use super::*;
use crate::group::{
    Body, Entry, EntryId, GroupId, Member, Message, NodeId, ReadContext, ReplicaId, Time, VoteKind,
};
use base::env::Rng;
use bytes::Bytes;
use engine::TreeId;

/// Draws numbers of all lengths.
fn number(rng: &mut Rng) -> u64 {
    rng.next_u64() >> (4 + rng.below(60))
}

fn id(rng: &mut Rng) -> EntryId {
    EntryId { term: number(rng), index: number(rng) }
}

fn bytes(rng: &mut Rng) -> Bytes {
    (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>().into()
}

fn body(rng: &mut Rng) -> Body {
    let read = |rng: &mut Rng| {
        rng.chance(50).then(|| ReadContext { start: rng.next_u64(), number: number(rng) })
    };
    match rng.below(10) {
        0 => {
            let previous = id(rng);
            let indexes = previous.index + 1..previous.index + 1 + rng.below(5);
            let entry = |index| {
                let id = EntryId { term: number(rng), index };
                Entry { id, command: bytes(rng) }
            };
            let entries = indexes.map(entry).collect();
            Body::Append { previous, entries, commit: number(rng), sent: Time(number(rng)) }
        }
        1 => Body::Appended {
            index: number(rng),
            commit: number(rng),
            refused: rng.chance(50).then(|| id(rng)),
            heard: Time(number(rng)),
        },
        2 => Body::Heartbeat { commit: number(rng), read: read(rng), sent: Time(number(rng)) },
        3 => {
            Body::HeartbeatAnswer { commit: number(rng), read: read(rng), heard: Time(number(rng)) }
        }
        4 => {
            let kind = [VoteKind::Trial, VoteKind::Real, VoteKind::Transfer][rng.index(3)];
            Body::RequestVote { kind, last: id(rng), commit: id(rng) }
        }
        5 => Body::Vote { trial: rng.chance(50), granted: rng.chance(50), commit: id(rng) },
        6 => Body::TimeoutNow,
        7 => Body::Sleep { index: number(rng) },
        8 => Body::Asleep { index: number(rng) },
        _ => Body::Held { by_all: number(rng), by_live: number(rng) },
    }
}

fn message(rng: &mut Rng) -> Message {
    let (from, to) = (ReplicaId(number(rng)), ReplicaId(number(rng)));
    Message { group: GroupId(number(rng)), from, to, term: number(rng), body: body(rng) }
}

fn descriptor(rng: &mut Rng) -> Descriptor {
    let member =
        |rng: &mut Rng| Member { replica: ReplicaId(number(rng)), node: NodeId(number(rng)) };
    Descriptor {
        members: (0..1 + rng.below(4)).map(|_| member(rng)).collect(),
        trees: (0..1 + rng.below(3)).map(|_| TreeId(rng.next_u64() as u32)).collect(),
        table: "tables/ü".repeat(rng.index(3)),
        schema_version: number(rng),
        schema: bytes(rng),
    }
}

#[test]
fn messages_read_back_in_their_order_whatever_the_frames() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let messages: Vec<Message> = (0..rng.below(30)).map(|_| message(&mut rng)).collect();
        for frame_bytes in [0, 1, 100, 1000, usize::MAX] {
            let frames = encode_frames(&messages, frame_bytes);
            let read: Vec<Message> =
                frames.iter().flat_map(|frame| decode_frame(frame).unwrap()).collect();
            assert_eq!(read, messages, "seed {seed}, frames of {frame_bytes} bytes");
            assert!(frame_bytes > 1 || frames.len() == messages.len(), "one each");
            assert!(frame_bytes < usize::MAX || frames.len() <= 1, "all in one");
        }
    }
}

#[test]
fn a_damaged_frame_is_refused_at_every_byte_and_every_length() {
    let mut rng = Rng::new(7);
    let messages: Vec<Message> = (0..20).map(|_| message(&mut rng)).collect();
    let frames = encode_frames(&messages, usize::MAX);
    let frame = &frames[0];
    for at in 0..frame.len() {
        assert!(decode_frame(&frame[..at]).is_err(), "cut to {at}");
        for bit in 0..8 {
            let mut damaged = frame.to_vec();
            damaged[at] ^= 1 << bit;
            assert!(decode_frame(&damaged).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_frame_of_more_messages_than_frames_have_is_refused_and_never_made() {
    let message = Message {
        group: GroupId(1),
        from: ReplicaId(1),
        to: ReplicaId(2),
        term: 1,
        body: Body::TimeoutNow,
    };
    let many = vec![message; (1 << 20) + 1];
    let frames = encode_frames(&many, usize::MAX);
    assert_eq!(frames.len(), 2);
    assert_eq!(decode_frame(&frames[0]).unwrap().len(), 1 << 20);
    // The messages of both, under one checksum.
    let (first, second) = (&frames[0], &frames[1]);
    let content = [&first[..first.len() - 4], &second[1..second.len() - 4]].concat();
    let crc = base::checksum::crc32c(&[&content]).to_le_bytes();
    let refused = decode_frame(&[&content[..], &crc].concat());
    assert_eq!(refused, Err(FormatError::Broken("more messages and entries than a frame has")));
}

#[test]
fn commands_and_descriptors_read_back_and_never_panic_when_damaged() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let parts: Vec<Bytes> = (0..3).map(|_| bytes(&mut rng)).collect();
        let batches = [0, 3, 63].into_iter().zip(&parts);
        let batches = batches.map(|(slot, batch)| SlotBatch { slot, batch });
        let batches = batches.filter(|_| rng.chance(60)).collect();
        let command = match rng.chance(70) {
            true => Command::Batches(Batches { newest_micros: number(&mut rng), batches }),
            false => Command::Schema { version: number(&mut rng), record: &parts[0] },
        };
        let encoded = command.encode();
        assert_eq!(Command::decode(&encoded), Ok(command), "seed {seed}");
        damage(&encoded, fuzz_command);
        let descriptor = descriptor(&mut rng);
        let encoded = descriptor.encode();
        assert_eq!(Descriptor::decode(&encoded), Ok(descriptor), "seed {seed}");
        damage(&encoded, fuzz_descriptor);
        let messages: Vec<Message> = (0..3).map(|_| message(&mut rng)).collect();
        let frame = &encode_frames(&messages, usize::MAX)[0];
        damage(&frame[..frame.len() - 4], fuzz_messages);
    }
}

/// Gives `check` the bytes cut to every length, and with every byte changed.
fn damage(bytes: &[u8], check: fn(&[u8])) {
    for at in 0..bytes.len() {
        check(&bytes[..at]);
        for byte in [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1] {
            let mut damaged = bytes.to_vec();
            damaged[at] = byte;
            check(&damaged);
        }
    }
}

#[test]
fn newer_versions_and_unknown_kinds_are_refused_by_name() {
    let text = |error: Option<FormatError>| error.unwrap().to_string();
    let command = Command::decode(&[2, 1]).err();
    assert!(text(command).contains("command of version 2"), "{command:?}");
    let kind = Command::decode(&[1, 9]).err();
    assert!(text(kind).contains("command of kind 9"), "{kind:?}");
    let descriptor = Descriptor::decode(&[7]).err();
    assert!(text(descriptor).contains("descriptor of version 7"), "{descriptor:?}");
    let frame = decode_frame(&[3, 0, 0, 0, 0]).err();
    assert!(text(frame).contains("messages of version 3"), "{frame:?}");
}

/// The examples of the pages.
#[test]
fn bytes_are_those_of_the_pages() {
    let entry = Entry { id: EntryId { term: 2, index: 6 }, command: Bytes::from_static(b"v") };
    let append = Body::Append {
        previous: EntryId { term: 2, index: 5 },
        entries: vec![entry],
        commit: 5,
        sent: Time(1000),
    };
    let messages = [append, Body::Vote { trial: true, granted: false, commit: EntryId::default() }]
        .map(|body| Message {
            group: GroupId(16),
            from: ReplicaId(1),
            to: ReplicaId(2),
            term: 3,
            body,
        });
    assert_eq!(
        hex(&encode_frames(&messages, usize::MAX)[0]),
        "01 10 01 02 03 01 02 05 05 e8 03 00 00 00 00 00 00 01 02 01 76 10 01 02 03 06 01 00 00 00 04 47 d8 01"
    );
    let one = SlotBatch { slot: 0, batch: b"\0\0\0\0" };
    let command = Command::Batches(Batches { newest_micros: 1000, batches: vec![one] });
    assert_eq!(hex(&command.encode()), "01 01 e8 03 00 00 00 00 00 00 00 04 00 00 00 00");
    let schema = Command::Schema { version: 300, record: b"r" };
    assert_eq!(hex(&schema.encode()), "01 02 ac 02 01 72");
    let members = [(1, 10), (2, 20)];
    let members =
        members.map(|(replica, node)| Member { replica: ReplicaId(replica), node: NodeId(node) });
    let descriptor = Descriptor {
        members: members.to_vec(),
        trees: vec![TreeId(16)],
        table: "t".to_owned(),
        schema_version: 300,
        schema: Bytes::from_static(b"r"),
    };
    assert_eq!(hex(&descriptor.encode()), "01 02 01 0a 02 14 01 10 01 74 ac 02 01 72");
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
