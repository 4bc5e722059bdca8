//! Authorized views: as records, and what requests through them may see and change.

use crate::harness::{
    Clients, INSTANCE, TABLE, chain, connect_to, entry, filter, limits, mutation, open, read_all,
    set, with_table,
};
use admin::authorized_view::{AuthorizedView as Kind, FamilySubsets, ResponseView, SubsetView};
use bigtable::KnownNames;
use data::mutation::{DeleteFromColumn, DeleteFromFamily, DeleteFromRow, Mutation};
use data::row_filter::Filter;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use tonic::{Code, Status};

const VIEW: &str = "projects/p/instances/i/tables/t/authorizedViews/v";

fn subset(
    prefixes: &[&'static str],
    families: &[(&str, &[&'static str], &[&'static str])],
) -> Kind {
    let bytes = |texts: &[&'static str]| texts.iter().map(|text| (*text).into()).collect();
    let family = |(name, qualifiers, qualifier_prefixes): &(&str, &[_], &[_])| {
        let subsets = FamilySubsets {
            qualifiers: bytes(qualifiers),
            qualifier_prefixes: bytes(qualifier_prefixes),
        };
        (name.to_string(), subsets)
    };
    Kind::SubsetView(SubsetView {
        row_prefixes: bytes(prefixes),
        family_subsets: families.iter().map(family).collect(),
    })
}

fn view(id: &str, kind: Kind) -> admin::CreateAuthorizedViewRequest {
    let view = admin::AuthorizedView { authorized_view: Some(kind), ..Default::default() };
    admin::CreateAuthorizedViewRequest {
        parent: TABLE.into(),
        authorized_view_id: id.into(),
        authorized_view: Some(view),
    }
}

/// A table with rows, and the view [`VIEW`] of the rows `b…`: of all of `f`, and of `g` the column `x`
/// and the columns with the prefix `y`.
async fn with_view() -> Clients {
    let mut t = with_table().await;
    for row in ["a", "b1", "b2", "c"] {
        let columns = ["f:q", "g:x", "g:y1", "g:z"].map(|column| set(column, 1000, b"v"));
        t.write(row, columns.into()).await;
    }
    let part = subset(&["b"], &[("f", &[], &[""]), ("g", &["x"], &["y"])]);
    t.tables.create_authorized_view(view("v", part)).await.unwrap();
    t
}

fn read_view() -> data::ReadRowsRequest {
    data::ReadRowsRequest { authorized_view_name: VIEW.into(), ..Default::default() }
}

fn assert_denied<T: std::fmt::Debug>(result: Result<T, Status>, text: &str) {
    let status = result.expect_err(text);
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    assert!(status.message().contains(text), "{status}");
}

#[tokio::test]
async fn reads_see_the_part_and_nothing_else() {
    let mut t = with_view().await;
    let all = [
        "b1 f:q@1000=v",
        "b1 g:x@1000=v",
        "b1 g:y1@1000=v",
        "b2 f:q@1000=v",
        "b2 g:x@1000=v",
        "b2 g:y1@1000=v",
    ];
    assert_eq!(t.lines(read_view()).await, all);
    // Neither a sink nor a limit sees what is outside.
    let sink = chain([Filter::ColumnQualifierRegexFilter("z|x".into()), Filter::Sink(true)]);
    let request = data::ReadRowsRequest { filter: Some(filter(sink)), ..read_view() };
    assert_eq!(t.lines(request).await, ["b1 g:x@1000=v", "b2 g:x@1000=v"]);
    let second = chain([Filter::CellsPerRowOffsetFilter(2), Filter::CellsPerRowLimitFilter(1)]);
    let rows =
        data::RowSet { row_keys: ["a", "b2", "c"].map(Into::into).into(), ..Default::default() };
    let request = data::ReadRowsRequest {
        table_name: TABLE.into(),
        filter: Some(filter(second)),
        rows: Some(rows),
        ..read_view()
    };
    assert_eq!(t.lines(request).await, ["b2 g:y1@1000=v"]);
    let wrong = data::ReadRowsRequest { table_name: format!("{TABLE}2"), ..read_view() };
    assert_eq!(t.refused(wrong).await.0, Code::InvalidArgument);
    let unknown =
        data::ReadRowsRequest { authorized_view_name: format!("{VIEW}2"), ..Default::default() };
    assert_eq!(t.refused(unknown).await.0, Code::NotFound);

    let mut create = crate::harness::create_table("split", [("f", Default::default())]);
    create.initial_splits = ["a", "b", "b5", "c"]
        .map(|key| admin::create_table_request::Split { key: key.into() })
        .into();
    t.tables.create_table(create).await.unwrap();
    let parent = format!("{INSTANCE}/tables/split");
    let request = admin::CreateAuthorizedViewRequest {
        parent: parent.clone(),
        ..view("v", subset(&["b"], &[("f", &[], &[""])]))
    };
    t.tables.create_authorized_view(request).await.unwrap();
    let request = data::SampleRowKeysRequest {
        authorized_view_name: format!("{parent}/authorizedViews/v"),
        ..Default::default()
    };
    let mut samples = t.data.sample_row_keys(request).await.unwrap().into_inner();
    let mut keys = Vec::new();
    while let Some(sample) = samples.message().await.unwrap() {
        keys.push(sample.row_key);
    }
    assert_eq!(keys, ["b", "b5", ""]);
}

#[tokio::test]
async fn changes_reach_no_further_than_the_part() {
    let mut t = with_view().await;
    let family = |name: &str| {
        mutation(Mutation::DeleteFromFamily(DeleteFromFamily { family_name: name.into() }))
    };
    let column = |qualifier: &'static str| {
        mutation(Mutation::DeleteFromColumn(DeleteFromColumn {
            family_name: "g".into(),
            column_qualifier: qualifier.into(),
            time_range: None,
        }))
    };
    let row = || mutation(Mutation::DeleteFromRow(DeleteFromRow {}));
    let before = t.lines(read_all()).await;
    let request = |row: &'static str, mutations: Vec<data::Mutation>| data::MutateRowRequest {
        authorized_view_name: VIEW.into(),
        row_key: row.into(),
        mutations,
        ..Default::default()
    };
    for (row, mutations, text) in [
        ("a", vec![set("f:q", 0, b"v")], "row 'a'"),
        ("b1", vec![set("f:q", 0, b"v"), set("g:z", 0, b"v")], "column 'g:z'"),
        ("b1", vec![set("sum:q", 0, b"v")], "column 'sum:q'"),
        ("b1", vec![column("z")], "column 'g:z'"),
        ("b1", vec![family("g")], "the whole of family 'g'"),
        ("b1", vec![row()], "the whole of family 'g'"),
    ] {
        assert_denied(t.data.mutate_row(request(row, mutations)).await, text);
    }
    let check = data::CheckAndMutateRowRequest {
        authorized_view_name: VIEW.into(),
        row_key: "b1".into(),
        true_mutations: vec![set("f:q", 0, b"v")],
        false_mutations: vec![set("g:z", 0, b"v")],
        ..Default::default()
    };
    assert_denied(t.data.check_and_mutate_row(check.clone()).await, "column 'g:z'");
    let rules = |qualifier: &'static str| data::ReadModifyWriteRowRequest {
        authorized_view_name: VIEW.into(),
        row_key: "b1".into(),
        rules: vec![data::ReadModifyWriteRule {
            family_name: "g".into(),
            column_qualifier: qualifier.into(),
            rule: Some(data::read_modify_write_rule::Rule::AppendValue("+".into())),
        }],
        ..Default::default()
    };
    assert_denied(t.data.read_modify_write_row(rules("z")).await, "column 'g:z'");
    assert_eq!(t.lines(read_all()).await, before);

    // Each entry of a batch stands for itself.
    let entries = vec![
        entry("b1", vec![set("g:y2", 2000, b"w")]),
        entry("c", vec![set("g:y2", 2000, b"w")]),
        entry("b2", vec![family("f"), column("x"), column("y1")]),
    ];
    let batch = data::MutateRowsRequest {
        authorized_view_name: VIEW.into(),
        entries,
        ..Default::default()
    };
    let mut answer = t.data.mutate_rows(batch).await.unwrap().into_inner();
    let statuses = answer.message().await.unwrap().unwrap().entries;
    let codes: Vec<_> = statuses.into_iter().map(|entry| entry.status.unwrap().code).collect();
    assert_eq!(codes, [0, Code::PermissionDenied as i32, 0]);
    let now = ["b1 f:q@1000=v", "b1 g:x@1000=v", "b1 g:y1@1000=v", "b1 g:y2@2000=w"];
    assert_eq!(t.lines(read_view()).await, now);
    // A predicate sees the part: row b2 has a cell left, but not in it.
    let check = data::CheckAndMutateRowRequest {
        row_key: "b2".into(),
        false_mutations: vec![set("f:q", 3000, b"empty")],
        ..check
    };
    let matched = t.data.check_and_mutate_row(check).await.unwrap().into_inner();
    assert!(!matched.predicate_matched);
    let appended = t.data.read_modify_write_row(rules("y2")).await.unwrap().into_inner();
    assert_eq!(&appended.row.unwrap().families[0].columns[0].cells[0].value[..], b"w+");
}

#[tokio::test]
async fn a_row_can_be_deleted_through_a_view_of_all_its_families() {
    let mut t = with_view().await;
    let all = ["f", "g", "max", "min", "sum"].map(|family| (family, &[][..], &[""][..]));
    t.tables.create_authorized_view(view("whole", subset(&["b"], &all))).await.unwrap();
    let delete = data::MutateRowRequest {
        authorized_view_name: format!("{TABLE}/authorizedViews/whole"),
        row_key: "b1".into(),
        mutations: vec![mutation(Mutation::DeleteFromRow(DeleteFromRow {}))],
        ..Default::default()
    };
    t.data.mutate_row(delete).await.unwrap();
    let rows = t.try_read(read_all()).await.unwrap();
    let keys: Vec<_> = rows.iter().map(|row| row.key.clone()).collect();
    assert_eq!(keys, [b"a".to_vec(), b"b2".to_vec(), b"c".to_vec()]);
}

#[tokio::test]
async fn views_are_listed_changed_and_go_with_their_table() {
    let mut t = with_view().await;
    let get = |shown: ResponseView| admin::GetAuthorizedViewRequest {
        name: VIEW.into(),
        view: shown as i32,
    };
    let full = t.tables.get_authorized_view(get(ResponseView::Full)).await.unwrap().into_inner();
    assert!(full.authorized_view.is_some() && !full.etag.is_empty());
    let basic = t.tables.get_authorized_view(get(ResponseView::Unspecified)).await.unwrap();
    let want = admin::AuthorizedView { authorized_view: None, ..full.clone() };
    assert_eq!(basic.into_inner(), want);
    let list = |view: ResponseView| admin::ListAuthorizedViewsRequest {
        parent: TABLE.into(),
        view: view as i32,
        ..Default::default()
    };
    let names = t.tables.list_authorized_views(list(ResponseView::Unspecified)).await.unwrap();
    let name_only = admin::AuthorizedView { name: VIEW.into(), ..Default::default() };
    assert_eq!(names.into_inner().authorized_views, [name_only]);

    let update = |view: admin::AuthorizedView, paths: &[&str]| admin::UpdateAuthorizedViewRequest {
        authorized_view: Some(view),
        update_mask: Some(prost_types::FieldMask {
            paths: paths.iter().map(|path| path.to_string()).collect(),
        }),
        ..Default::default()
    };
    let rows = Some(subset(&["c"], &[]));
    let changed =
        admin::AuthorizedView { authorized_view: rows, deletion_protection: true, ..full.clone() };
    let paths = ["subset_view.row_prefixes", "deletion_protection"];
    let request = update(changed, &paths);
    t.tables.update_authorized_view(request.clone()).await.unwrap();
    let status = t.tables.update_authorized_view(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status}");
    let now = ["c f:q@1000=v", "c g:x@1000=v", "c g:y1@1000=v"];
    assert_eq!(t.lines(read_view()).await, now);

    let delete =
        |etag: &str| admin::DeleteAuthorizedViewRequest { name: VIEW.into(), etag: etag.into() };
    let table = || admin::DeleteTableRequest { name: TABLE.into() };
    let instance = admin::DeleteInstanceRequest { name: INSTANCE.into() };
    let protected = [
        t.tables.delete_authorized_view(delete("")).await,
        t.tables.delete_table(table()).await,
        t.instances.delete_instance(instance).await,
    ];
    for refused in protected {
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains(VIEW), "{status}");
    }
    let open = admin::AuthorizedView { name: VIEW.into(), ..Default::default() };
    t.tables.update_authorized_view(update(open, &["deletion_protection"])).await.unwrap();
    let status = t.tables.delete_authorized_view(delete(&full.etag)).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status}");
    t.tables.delete_table(table()).await.unwrap();
    let anew = crate::harness::create_table("t", [("f", Default::default())]);
    t.tables.create_table(anew).await.unwrap();
    let status = t.tables.delete_authorized_view(delete("")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
}

#[tokio::test]
async fn wrong_views_are_refused() {
    let mut t = with_view().await;
    let many: Vec<_> = (0..101).map(|_| "x").collect();
    let no_kind = admin::CreateAuthorizedViewRequest {
        authorized_view: Some(Default::default()),
        ..view("w", subset(&[], &[]))
    };
    let of = |parent: &str| admin::CreateAuthorizedViewRequest {
        parent: parent.into(),
        ..view("w", subset(&[""], &[]))
    };
    for (case, request, code) in [
        ("id", view("no/slash", subset(&[""], &[])), Code::InvalidArgument),
        ("exists", view("v", subset(&[""], &[])), Code::AlreadyExists),
        ("no part", no_kind, Code::InvalidArgument),
        ("no family", view("w", subset(&[""], &[("none", &[], &[])])), Code::NotFound),
        ("too many", view("w", subset(&many, &[])), Code::InvalidArgument),
        ("no table", of(&format!("{INSTANCE}/tables/none")), Code::NotFound),
        ("parent", of(INSTANCE), Code::InvalidArgument),
    ] {
        let status = t.tables.create_authorized_view(request).await.expect_err(case);
        assert_eq!(status.code(), code, "{case}: {status}");
    }
    let materialized = data::ReadRowsRequest {
        materialized_view_name: format!("{INSTANCE}/materializedViews/m"),
        ..Default::default()
    };
    assert_eq!(t.refused(materialized).await.0, Code::Unimplemented);
}

#[test]
fn views_are_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let served = |act: &mut dyn FnMut(&tokio::runtime::Runtime, &mut Clients)| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (engine, store) = open(dir.path());
        let routes = bigtable::routes_for(
            store,
            KnownNames::All,
            bigtable::Callers::Anybody,
            &bigtable::Bounds::new(&limits()),
        );
        act(&runtime, &mut runtime.block_on(connect_to(routes)));
        engine.close().unwrap();
    };
    served(&mut |runtime, t| {
        runtime.block_on(async {
            let table = crate::harness::create_table("t", [("f", Default::default())]);
            t.tables.create_table(table).await.unwrap();
            t.write("a", vec![set("f:q", 1000, b"v")]).await;
            t.write("b", vec![set("f:q", 1000, b"v")]).await;
            let part = subset(&["b"], &[("f", &["q"], &[])]);
            t.tables.create_authorized_view(view("v", part)).await.unwrap();
        });
    });
    served(&mut |runtime, t| {
        assert_eq!(runtime.block_on(t.lines(read_view())), ["b f:q@1000=v"]);
    });
}
