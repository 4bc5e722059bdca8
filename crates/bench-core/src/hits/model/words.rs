//! A vocabulary of made-up words. Each word has a Cyrillic and a Latin form, which titles and
//! addresses use. All seeds share it.

use super::draw::{generator, ranked};
use crate::random::SplitMix64;

/// Number of words of the vocabulary.
const WORDS: u64 = 4_096;

const KIND: u64 = 0x776f_7264;

/// Syllables of words in both scripts.
const SYLLABLES: [(&str, &str); 48] = [
    ("ка", "ka"),
    ("ро", "ro"),
    ("ми", "mi"),
    ("то", "to"),
    ("ла", "la"),
    ("не", "ne"),
    ("ве", "ve"),
    ("сто", "sto"),
    ("ри", "ri"),
    ("ма", "ma"),
    ("по", "po"),
    ("да", "da"),
    ("ши", "shi"),
    ("ло", "lo"),
    ("зе", "ze"),
    ("гра", "gra"),
    ("ну", "nu"),
    ("би", "bi"),
    ("чер", "cher"),
    ("со", "so"),
    ("лю", "lyu"),
    ("де", "de"),
    ("пре", "pre"),
    ("ва", "va"),
    ("жи", "zhi"),
    ("об", "ob"),
    ("ска", "ska"),
    ("те", "te"),
    ("фо", "fo"),
    ("ру", "ru"),
    ("хо", "ho"),
    ("ца", "ca"),
    ("вод", "vod"),
    ("ме", "me"),
    ("сне", "sne"),
    ("ку", "ku"),
    ("пла", "pla"),
    ("ди", "di"),
    ("га", "ga"),
    ("тре", "tre"),
    ("но", "no"),
    ("са", "sa"),
    ("бо", "bo"),
    ("ли", "li"),
    ("вы", "vy"),
    ("за", "za"),
    ("при", "pri"),
    ("ко", "ko"),
];

/// Ends of words in both scripts.
const ENDS: [(&str, &str); 16] = [
    ("", ""),
    ("", ""),
    ("", ""),
    ("", ""),
    ("т", "t"),
    ("к", "k"),
    ("ть", "t"),
    ("ный", "nyy"),
    ("ская", "skaya"),
    ("ов", "ov"),
    ("ы", "y"),
    ("ом", "om"),
    ("ние", "nie"),
    ("нь", "n"),
    ("х", "h"),
    ("ец", "ec"),
];

/// The script of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Two bytes a letter in UTF-8.
    Cyrillic,
    /// One byte a letter; for addresses.
    Latin,
}

/// The words of one script, one behind the other.
#[derive(Debug)]
struct Words {
    text: String,
    ends: Vec<usize>,
}

impl Words {
    fn new() -> Self {
        Self { text: String::new(), ends: vec![0] }
    }

    fn get(&self, number: u64) -> &str {
        let index = number as usize;
        &self.text[self.ends[index]..self.ends[index + 1]]
    }
}

/// All words in both scripts.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    cyrillic: Words,
    latin: Words,
}

impl Vocabulary {
    /// Makes all words, which takes about a millisecond.
    pub(super) fn new() -> Self {
        let mut words = Self { cyrillic: Words::new(), latin: Words::new() };
        for number in 0..WORDS {
            let mut random = generator(KIND, number);
            // Frequent words are shorter.
            let syllables = 1 + random.below(if number < 64 { 2 } else { 4 });
            for _ in 0..syllables {
                words.append(SYLLABLES[random.below(SYLLABLES.len() as u64) as usize]);
            }
            words.append(ENDS[random.below(ENDS.len() as u64) as usize]);
            for part in [&mut words.cyrillic, &mut words.latin] {
                part.ends.push(part.text.len());
            }
        }
        words
    }

    fn append(&mut self, (cyrillic, latin): (&str, &str)) {
        self.cyrillic.text.push_str(cyrillic);
        self.latin.text.push_str(latin);
    }

    /// Returns word `number`, which is below [`WORDS`].
    fn word(&self, script: Script, number: u64) -> &str {
        match script {
            Script::Cyrillic => self.cyrillic.get(number),
            Script::Latin => self.latin.get(number),
        }
    }

    /// Returns a word; frequent words are drawn more often.
    pub(super) fn draw(&self, script: Script, random: &mut SplitMix64) -> &str {
        self.word(script, ranked(random, WORDS))
    }

    /// Appends `count` words with `separator` between them. The same generator gives the same words in
    /// both scripts.
    pub(super) fn append_words(
        &self,
        (script, separator): (Script, char),
        count: u64,
        random: &mut SplitMix64,
        out: &mut String,
    ) {
        for index in 0..count {
            if index > 0 {
                out.push(separator);
            }
            out.push_str(self.draw(script, random));
        }
    }
}
