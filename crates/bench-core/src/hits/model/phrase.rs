//! Phrases that visitors search for. Rank 0 is searched for most often; all seeds share the phrases.

use super::draw::generator;
use super::words::{Script, Vocabulary};

/// Number of phrases that exist.
pub(super) const PHRASES: u64 = 12_000_000;

const KIND: u64 = 0x7068_7261_7365_0001;

/// Appends the phrase of a rank as a visitor types it.
pub(crate) fn append_phrase(words: &Vocabulary, rank: u64, out: &mut String) {
    append(words, (Script::Cyrillic, ' '), rank, out);
}

/// Appends the phrase of a rank in Latin letters, for the address of a result page.
pub(super) fn append_latin_phrase(words: &Vocabulary, rank: u64, out: &mut String) {
    append(words, (Script::Latin, '+'), rank, out);
}

fn append(words: &Vocabulary, form: (Script, char), rank: u64, out: &mut String) {
    let mut random = generator(KIND, rank);
    let count = 1 + random.below(3) + random.below(4);
    words.append_words(form, count, &mut random, out);
}
