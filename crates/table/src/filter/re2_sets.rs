//! Sets of bytes for patterns in the RE2 dialect: its named classes, and case as it folds it.
//!
//! A byte is the character of that number. Classes are Unicode's all the same; case is that of ASCII.

use regex_syntax::hir::{Class, HirKind};

pub(super) struct ByteSet([bool; 256]);

impl Default for ByteSet {
    fn default() -> Self {
        Self([false; 256])
    }
}

impl ByteSet {
    /// Adds the characters that are members; with `fold`, also those that differ from one in case
    /// only.
    pub(super) fn insert_if(&mut self, fold: bool, member: impl Fn(u32) -> bool) {
        for byte in 0..=u8::MAX {
            let folded = || byte.is_ascii_alphabetic() && member(u32::from(byte ^ 0x20));
            self.0[usize::from(byte)] |= member(byte.into()) || fold && folded();
        }
    }

    /// Adds the characters that [`Self::insert_if`] would not.
    pub(super) fn insert_unless(&mut self, fold: bool, member: impl Fn(u32) -> bool) {
        let mut set = Self::default();
        set.insert_if(fold, member);
        self.insert_if(false, |c| !set.0[c as usize]);
    }

    /// The set as ranges, both ends included.
    pub(super) fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|byte| self.0[usize::from(*byte)]) {
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == byte => *high = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}

/// Returns whether a character is in the class `\d`, `\s` or `\w` of this letter; `None` for other
/// letters.
pub(super) fn perl_class(letter: u8) -> Option<fn(u32) -> bool> {
    Some(match letter {
        b'd' => |c| byte(c).is_ascii_digit(),
        b's' => |c| matches!(byte(c), b'\t' | b'\n' | 0x0c | b'\r' | b' '),
        b'w' => |c| byte(c).is_ascii_alphanumeric() || c == u32::from(b'_'),
        _ => return None,
    })
}

/// Returns whether a character is in the class `[:name:]`; `None` if there is none.
pub(super) fn posix_class(name: &[u8]) -> Option<fn(u32) -> bool> {
    Some(match name {
        b"alnum" => |c| byte(c).is_ascii_alphanumeric(),
        b"alpha" => |c| byte(c).is_ascii_alphabetic(),
        b"ascii" => |c| c < 0x80,
        b"blank" => |c| matches!(byte(c), b'\t' | b' '),
        b"cntrl" => |c| byte(c).is_ascii_control(),
        b"digit" => |c| byte(c).is_ascii_digit(),
        b"graph" => |c| byte(c).is_ascii_graphic(),
        b"lower" => |c| byte(c).is_ascii_lowercase(),
        b"print" => |c| byte(c).is_ascii_graphic() || c == u32::from(b' '),
        b"punct" => |c| byte(c).is_ascii_punctuation(),
        b"space" => |c| matches!(byte(c), b'\t'..=b'\r' | b' '),
        b"upper" => |c| byte(c).is_ascii_uppercase(),
        b"word" => |c| byte(c).is_ascii_alphanumeric() || c == u32::from(b'_'),
        b"xdigit" => |c| byte(c).is_ascii_hexdigit(),
        _ => return None,
    })
}

/// The character as a byte; one that is in no class of ASCII if it is none.
fn byte(c: u32) -> u8 {
    u8::try_from(c).unwrap_or(u8::MAX)
}

/// Returns whether a character is in the Unicode class `name`; `None` if RE2 has none of that name:
/// it takes general categories by their short names, and scripts by their full ones.
pub(super) fn unicode_class(name: &str) -> Option<impl Fn(u32) -> bool> {
    let any = name == "Any";
    let known = any
        || CATEGORIES.split(' ').any(|category| category == name)
        || SCRIPTS.split_ascii_whitespace().any(|script| script == name);
    if !known || name.is_empty() {
        return None;
    }
    // Surrogates are no characters here: their class is empty.
    let hir = regex_syntax::parse(&format!("[\\p{{{name}}}]")).ok();
    Some(move |c| {
        let class = hir.as_ref().map(|hir| hir.kind());
        any || char::from_u32(c).is_some_and(|c| match class {
            Some(HirKind::Class(Class::Unicode(class))) => {
                class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&c))
            }
            Some(HirKind::Literal(literal)) => {
                literal.0[..] == *c.encode_utf8(&mut [0; 4]).as_bytes()
            }
            _ => false,
        })
    })
}

const CATEGORIES: &str = "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S \
    Sc Sk Sm So Z Zl Zp Zs";

const SCRIPTS: &str = "\
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah \
    Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal \
    Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform \
    Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan \
    Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha \
    Greek Gujarati Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran \
    Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi \
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi \
    Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B \
    Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen \
    Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive \
    Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari \
    Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki \
    Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian \
    Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene \
    Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra \
    Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese \
    Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa \
    Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho \
    Warang_Citi Yezidi Yi Zanabazar_Square";
