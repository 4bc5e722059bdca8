//! The columns of a hit, in groups of neighbours. The groups are written in the order of the schema.

use super::Hits;
use super::columns::COLUMNS;
use super::model::{Hit, Source, append_phrase, between, chance, positive};
use super::row::{Row, Value};
use crate::random::mix;
use std::fmt::Write as _;

/// Position of the column URL.
pub(super) const URL: usize = 13;

/// Position of the column Referer.
pub(super) const REFERER: usize = 14;

const WATCH: u64 = 0x7761_7463_6830_0001;
const COLORS: [&str; 8] = ["5", "S", "T", "D", "E", "o", "F", "g"];
const CATEGORIES: u64 = 17_000;
const REGIONS: u64 = 900;

/// Makes `row` row `number` of the table.
pub(super) fn fill(hits: &Hits, number: u64, row: &mut Row) {
    row.clear();
    let mut hit = hits.model.hit(number);
    let time = hits.model.event_time(number);
    event(hits, &hit, (number, time), row);
    addresses(hits, &hit, row);
    browser(&hit, row);
    search(hits, &mut hit, row);
    window(&mut hit, time, row);
    page_kind(&mut hit, row);
    person(&mut hit, time, row);
    timings(&mut hit, row);
    social_and_money(&mut hit, row);
    tags(&mut hit, row);
    hashes(hits, &mut hit, row);
    row.finish();
}

/// Adds the columns from WatchID to UserAgent.
fn event(hits: &Hits, hit: &Hit, (number, time): (u64, i64), row: &mut Row) {
    let visitor = &hit.visitor;
    row.big(positive(mix(number ^ mix(hits.seed ^ WATCH))));
    row.small(visitor.java);
    row.text_by(|out| hit.site.append_title(&hits.model.words, hit.page, out));
    row.small(1);
    row.timestamp(time);
    row.date(time.div_euclid(86_400) as i32);
    row.integer(hit.site.counter.cast_signed());
    row.integer(visitor.ip);
    row.integer(visitor.region);
    row.big(visitor.user_id);
    row.smalls(&[i16::from(hit.site.counter == 3_922), visitor.system, visitor.agent.0]);
}

/// Adds the columns from URL to URLRegionID.
fn addresses(hits: &Hits, hit: &Hit, row: &mut Row) {
    let words = &hits.model.words;
    row.text_by(|out| hit.append_url(words, out));
    row.text_by(|out| hit.append_referer(words, out));
    row.small(hit.refresh.into());
    for counter in [hit.referer_counter(), Some(hit.site.counter)] {
        let (category, region) = counter.map_or((0, 0), subject);
        row.small(category);
        row.integer(region);
    }
}

/// Returns category and region of a site.
fn subject(counter: u32) -> (i16, i32) {
    let bits = mix(counter.into());
    if bits.is_multiple_of(3) {
        return (0, 0);
    }
    ((bits % CATEGORIES) as i16, ((bits >> 32) % REGIONS) as i32)
}

/// Adds the columns from ResolutionWidth to MobilePhoneModel.
fn browser(hit: &Hit, row: &mut Row) {
    let visitor = &hit.visitor;
    row.smalls(&[visitor.screen.0, visitor.screen.1, visitor.screen_depth]);
    let flash = visitor.flash.unwrap_or((0, 0));
    row.smalls(&[flash.0, flash.1]);
    row.text(if visitor.flash.is_some() { "700" } else { "" });
    row.smalls(&[visitor.net.0, visitor.net.1, visitor.agent.1]);
    row.text_by(|out| {
        let _ = write!(out, "{}", visitor.agent_minor);
    });
    let mobile = i16::from(visitor.phone.0 != 0);
    row.smalls(&[1, 1, mobile, visitor.phone.0]);
    row.text(visitor.phone.1);
}

/// Adds the columns from Params to AdvEngineID.
fn search(hits: &Hits, hit: &mut Hit, row: &mut Row) {
    let words = &hits.model.words;
    if chance(&mut hit.random, 700) {
        row.text_by(|out| hit.append_params(words, out));
    } else {
        row.text("");
    }
    row.integer(hit.visitor.network);
    row.small(hit.source_code());
    let searched = hit.searched();
    row.small(if searched { hit.visit.engine } else { 0 });
    row.text_by(|out| {
        if searched {
            append_phrase(words, hit.visit.phrase, out);
        }
    });
    let advertised = hit.entry && hit.visit.source == Source::Ad;
    row.small(if advertised { hit.visit.advertiser } else { 0 });
}

/// Adds the columns from IsArtifical to SilverlightVersion4.
fn window(hit: &mut Hit, time: i64, row: &mut Row) {
    row.small(chance(&mut hit.random, 150).into());
    let (width, height) = hit.visitor.screen;
    if chance(&mut hit.random, 7_000) {
        let random = &mut hit.random;
        row.small(width - between(random, 0, width / 2));
        row.small(height - between(random, 80, height / 2));
    } else {
        row.smalls(&[width - 17, height - 120 - 8 * between(&mut hit.random, 0, 4)]);
    }
    row.small(hit.visitor.zone_minutes);
    row.timestamp(time + hit.visitor.clock_error);
    let silverlight = hit.visitor.silverlight;
    row.smalls(if silverlight { &[5, 1] } else { &[0, 0] });
    row.integer(if silverlight { 20_125 } else { 0 });
    row.small(0);
}

/// Adds the columns from PageCharset to HitColor.
fn page_kind(hit: &mut Hit, row: &mut Row) {
    row.text(if hit.site.utf8 { "utf-8" } else { "windows-1251" });
    row.integer(if hit.site.utf8 { 291 } else { 1_601 });
    let download = !hit.link && chance(&mut hit.random, 40);
    row.smalls(&[hit.link.into(), download.into(), (!hit.entry).into()]);
    row.big(hit.visitor.flash_id);
    if chance(&mut hit.random, 2_200) {
        row.same_text(URL);
    } else {
        row.text("");
    }
    let random = &mut hit.random;
    row.integer((random.next_u64() >> 34) as i32);
    row.smalls(&[0, chance(random, 300).into(), chance(random, 150).into()]);
    row.smalls(&[chance(random, 200).into(), chance(random, 900).into()]);
    row.text(COLORS[random.below(COLORS.len() as u64) as usize]);
}

/// Adds the columns from LocalEventTime to BrowserCountry.
fn person(hit: &mut Hit, time: i64, row: &mut Row) {
    let visitor = &hit.visitor;
    row.timestamp(time + i64::from(visitor.zone_minutes - 240) * 60);
    row.smalls(&visitor.person);
    row.small(if hit.visit.bits.is_multiple_of(97) { 12 } else { 0 });
    row.integer(mix(hit.visit.bits) as i32);
    let window = chance(&mut hit.random, 1_500);
    row.integer(if window { (hit.visit.bits >> 40) as i32 } else { -1 });
    row.integer(if window { (hit.visit.bits >> 41) as i32 } else { -1 });
    row.small(if hit.entry { 1 } else { between(&mut hit.random, 2, 40) });
    row.text(hit.visitor.language.0);
    row.text(hit.visitor.language.1);
}

/// Adds the columns from SocialNetwork to FetchTiming.
fn timings(hit: &mut Hit, row: &mut Row) {
    let random = &mut hit.random;
    let social = chance(random, 20);
    row.text(if social { "network-1" } else { "" });
    row.text(if social { "like" } else { "" });
    row.small(if chance(random, 30) { 404 } else { 0 });
    let timed = chance(random, 3_500);
    let mut sum = 0;
    for most in [400, 150, 300, 900, 1_500, 60] {
        sum += i32::from(between(random, 0, most));
        row.integer(if timed { sum } else { 0 });
    }
}

/// Adds the columns from SocialSourceNetworkID to ParamCurrencyID.
fn social_and_money(hit: &mut Hit, row: &mut Row) {
    let social = hit.entry && hit.visit.source == Source::Social;
    row.small(if social { 1 + (hit.visit.bits % 4) as i16 } else { 0 });
    if social {
        row.same_text(REFERER);
    } else {
        row.text("");
    }
    let order = chance(&mut hit.random, 25);
    row.big(if order { i64::from(between(&mut hit.random, 90, 30_000)) } else { 0 });
    row.text_by(|out| {
        if order {
            let _ = write!(out, "order-{}", hit.visit.bits % 1_000_000);
        }
    });
    row.text("NH");
    row.small(if order { 643 } else { 0 });
}

/// Adds the columns from OpenstatServiceName to FromTag.
fn tags(hit: &mut Hit, row: &mut Row) {
    let number = hit.visit.bits % 5_000;
    if hit.entry && hit.visit.source == Source::Ad {
        row.text("direct.example");
        for sign in ["campaign", "ad", "place"] {
            row.text_by(|out| {
                let _ = write!(out, "{sign}-{number}");
            });
        }
    } else {
        row.empty_texts(4);
    }
    if hit.campaign() {
        ["google", "cpc"].iter().for_each(|tag| row.text(tag));
        row.text_by(|out| {
            let _ = write!(out, "summer-{}", number % 40);
        });
        row.empty_texts(2);
    } else {
        row.empty_texts(5);
    }
    row.text(if chance(&mut hit.random, 60) { "rss" } else { "" });
}

/// Adds the columns from HasGCLID to CLID.
fn hashes(hits: &Hits, hit: &mut Hit, row: &mut Row) {
    row.small(hit.campaign().into());
    for index in [REFERER, URL] {
        let Value::Text(url) = row.value(index) else {
            unreachable!("{} is text", COLUMNS[index].name)
        };
        row.big(hits.model.url_hash(url));
    }
    row.integer(if chance(&mut hit.random, 80) { (hit.visit.bits >> 43) as i32 } else { 0 });
}
