"""Tables and families, by the admin client and by the older object-shaped one."""

import datetime

import pytest
from google.api_core import exceptions
from google.cloud.bigtable import column_family
from google.cloud.bigtable.data import ReadRowsQuery, RowMutationEntry, SetCell

SUM = {"aggregate_type": {"input_type": {"int64_type": {}}, "sum": {}}}
TWO_OR_A_DAY = {
    "intersection": {"rules": [{"max_num_versions": 2}, {"max_age": {"seconds": 86400}}]}
}


@pytest.fixture(scope="session")
def made(admin, first):
    """A table with families of every sort, which stays."""
    if first:
        families = {
            "all": {},
            "three": {"gc_rule": {"max_num_versions": 3}},
            "hour": {"gc_rule": {"max_age": {"seconds": 3600}}},
            "both": {"gc_rule": TWO_OR_A_DAY},
            "total": {"value_type": SUM},
        }
        admin.create("families", families, splits=[b"g", b"p"])
        admin.modify(
            "families",
            {"id": "late", "create": {"gc_rule": {"max_num_versions": 1}}},
            {"id": "three", "update": {"gc_rule": {"max_num_versions": 4}}},
            {"id": "hour", "drop": True},
        )
    return "families"


@pytest.mark.lasting
def test_a_table_keeps_its_families(admin, made):
    families = admin.get(made).column_families
    assert sorted(families) == ["all", "both", "late", "three", "total"]
    assert not families["all"].gc_rule
    assert families["three"].gc_rule.max_num_versions == 4
    assert families["late"].gc_rule.max_num_versions == 1
    rules = families["both"].gc_rule.intersection.rules
    assert [rules[0].max_num_versions, rules[1].max_age] == [2, datetime.timedelta(days=1)]
    aggregate = families["total"].value_type.aggregate_type
    assert "sum" in aggregate and "int64_type" in aggregate.input_type


@pytest.mark.lasting
def test_tables_are_listed(admin, made):
    assert admin.name(made) in admin.names()
    assert all(name.startswith(admin.parent + "/tables/") for name in admin.names())


@pytest.mark.lasting
def test_splits_show_in_the_samples(client, made):
    samples = client.table(made).sample_row_keys()
    assert [key for key, _ in samples] == [b"g", b"p", b""]


def test_creating_a_table_twice_is_refused(admin):
    admin.create("twice", ["f"])
    with pytest.raises(exceptions.AlreadyExists, match="tables/twice"):
        admin.create("twice", ["f"])
    assert list(admin.get("twice").column_families) == ["f"]


def test_a_deleted_table_comes_back(admin, client):
    name = f"undeleted-{client.kind}"
    admin.create(name, ["f"])
    table = client.table(name)
    table.mutate_row(b"r", SetCell("f", b"q", b"kept"))
    with pytest.raises(exceptions.NotFound, match="deleted table"):
        admin.undelete("never-there")
    admin.stub.delete_table(name=admin.name(name))
    assert admin.name(name) not in admin.names()
    assert list(admin.undelete(name).column_families) == ["f"]
    assert table.read_row(b"r").cells[0].value == b"kept"
    with pytest.raises(exceptions.NotFound, match="deleted table"):
        admin.undelete(name)


def test_a_backup_is_made_and_restored(admin, client):
    name = f"backed-up-{client.kind}"
    admin.create(name, ["f"])
    client.table(name).mutate_row(b"r", SetCell("f", b"q", b"kept"))
    backup = admin.back_up(name, "hourly-" + client.kind)
    assert backup.source_table == admin.name(name) and backup.size_bytes > 0
    client.table(name).mutate_row(b"r", SetCell("f", b"q", b"later"))
    restored = admin.restore(backup.name, name + "-restored")
    assert restored.restore_info.backup_info.backup == backup.name
    row = client.table(name + "-restored").read_row(b"r")
    assert [cell.value for cell in row.cells] == [b"kept"]
    listed = admin.stub.list_backups(parent=f"{admin.parent}/clusters/-")
    assert backup.name in [backup.name for backup in listed]
    admin.stub.delete_backup(name=backup.name)
    with pytest.raises(exceptions.NotFound, match="backup"):
        admin.stub.get_backup(name=backup.name)


def test_family_changes_are_made_all_or_none(admin):
    admin.create("changes", ["f"])
    with pytest.raises(exceptions.NotFound, match="nothing"):
        admin.modify("changes", {"id": "g", "create": {}}, {"id": "nothing", "drop": True})
    assert list(admin.get("changes").column_families) == ["f"]
    with pytest.raises(exceptions.AlreadyExists, match="f"):
        admin.modify("changes", {"id": "f", "create": {}})


def test_a_family_made_again_under_its_name_is_empty(admin, new_table):
    table = new_table(["f", "g"])
    table.mutate_row(b"r", [SetCell("f", b"q", b"old"), SetCell("g", b"q", b"other")])
    admin.modify(table.table_id, {"id": "f", "drop": True})
    admin.modify(table.table_id, {"id": "f", "create": {}})
    assert [cell.value for cell in table.read_row(b"r").cells] == [b"other"]


def test_drop_row_range(admin, new_table):
    table = new_table(["f"], splits=[b"b5"])
    keys = [f"{letter}{n}".encode() for letter in "abc" for n in range(10)]
    table.bulk_mutate_rows([RowMutationEntry(key, SetCell("f", b"q", b"v")) for key in keys])
    admin.stub.drop_row_range(request={"name": admin.name(table.table_id), "row_key_prefix": b"b"})
    left = [row.row_key for row in table.read_rows(ReadRowsQuery())]
    assert left == [key for key in keys if not key.startswith(b"b")]
    table.mutate_row(b"b7", SetCell("f", b"q", b"again"))
    assert table.row_exists(b"b7") and not table.row_exists(b"b6")
    admin.stub.drop_row_range(
        request={"name": admin.name(table.table_id), "delete_all_data_from_table": True}
    )
    assert table.read_rows(ReadRowsQuery()) == []


def test_a_deleted_table_is_gone_and_its_name_is_free(admin, client):
    admin.create("brief", ["f"])
    table = client.table("brief")
    table.mutate_row(b"r", SetCell("f", b"q", b"v"))
    admin.stub.delete_table(name=admin.name("brief"))
    with pytest.raises(exceptions.NotFound, match="tables/brief"):
        admin.get("brief")
    with pytest.raises(exceptions.NotFound, match="tables/brief"):
        table.mutate_row(b"r", SetCell("f", b"q", b"v"))
    admin.create("brief", ["f"])
    assert table.read_row(b"r") is None
    admin.stub.delete_table(name=admin.name("brief"))


def test_consistency_tokens(admin):
    admin.create("consistent", ["f"])
    name = admin.name("consistent")
    token = admin.stub.generate_consistency_token(name=name).consistency_token
    assert admin.stub.check_consistency(name=name, consistency_token=token).consistent


def test_the_object_shaped_client(admin):
    table = admin.classic.instance("objects").table("shop")
    rule = column_family.GCRuleUnion(
        [column_family.MaxVersionsGCRule(2), column_family.MaxAgeGCRule(datetime.timedelta(days=7))]
    )
    table.create(initial_split_keys=[b"m"], column_families={"stock": rule})
    assert table.exists()
    family = table.list_column_families()["stock"]
    assert family.gc_rule == rule
    row = table.direct_row(b"apple")
    row.set_cell("stock", b"count", b"12")
    assert row.commit().code == 0
    assert table.read_row(b"apple").cells["stock"][b"count"][0].value == b"12"
    rows = [table.direct_row(f"pear{n}".encode()) for n in range(3)]
    for row in rows:
        row.set_cell("stock", b"count", 7)
    assert [status.code for status in table.mutate_rows(rows)] == [0, 0, 0]
    assert [row.row_key for row in table.read_rows(start_key=b"pear1")] == [b"pear1", b"pear2"]
    appended = table.append_row(b"apple")
    appended.append_cell_value("stock", b"count", b"0")
    assert appended.commit()["stock"][b"count"][0][0] == b"120"
    table.truncate()
    assert list(table.read_rows()) == []
    table.delete()
    assert not table.exists()
