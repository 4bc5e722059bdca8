"""SQLAlchemy 2: Core, the ORM, and reflection of a schema, by psycopg 2, psycopg 3 and asyncpg."""

import asyncio
import datetime as dt
import decimal
import os
import uuid

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext import asyncio as sa_asyncio

D = decimal.Decimal
ADDRESS = os.environ["CLIENTS_SQL"].replace("postgresql://", "")


@pytest.fixture(params=["psycopg2", "psycopg"])
def engine(request, schema):
    mark = "&" if "?" in ADDRESS else "?"
    url = f"postgresql+{request.param}://{ADDRESS}{mark}options=-csearch_path%3D{schema}"
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def tables():
    meta = sa.MetaData()
    sa.Table(
        "people", meta,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(50), nullable=False, index=True, comment="what it is called"),
        sa.Column("email", sa.Text, unique=True),
        sa.Column("balance", sa.Numeric(12, 2), nullable=False, server_default="0"),
        sa.Column("born", sa.Date),
        sa.Column("seen", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.Column("tags", pg.ARRAY(sa.Text)),
        sa.Column("data", pg.JSONB),
        sa.Column("key", sa.Uuid),
        sa.Column("raw", sa.LargeBinary),
        sa.Column("ratio", sa.Double),
        sa.Column("active", sa.Boolean, server_default=sa.true()),
        sa.CheckConstraint("balance >= 0", name="balance_positive"),
        sa.UniqueConstraint("name", "born", name="name_born"),
        comment="all the people",
    )
    sa.Table(
        "counted", meta,
        sa.Column("id", sa.BigInteger, sa.Identity(always=True, start=10, increment=2), primary_key=True),
        sa.Column("note", sa.Text),
        sa.Column("twice", sa.Integer, sa.Computed("n * 2", persisted=True)),
        sa.Column("n", sa.Integer),
    )
    sa.Table("pair", meta, sa.Column("a", sa.Integer, primary_key=True, autoincrement=False),
             sa.Column("b", sa.String(5), primary_key=True))
    sa.Index("people_late", meta.tables["people"].c.born.desc(), meta.tables["people"].c.name)
    return meta


def test_core(engine):
    meta = tables()
    people = meta.tables["people"]
    with engine.begin() as connection:
        meta.create_all(connection)
        meta.create_all(connection)
    row = dict(name="Ann", email="a@x", balance=D("10.50"), born=dt.date(1990, 1, 2), tags=["a", "b"],
               data={"k": [1, None]}, key=uuid.UUID(int=5), raw=b"\x00\x01", ratio=0.25)
    with engine.begin() as connection:
        assert connection.execute(people.insert(), row).inserted_primary_key == (1,)
        connection.execute(people.insert(), [{"name": f"n{n}", "balance": n} for n in range(100)])
    with engine.connect() as connection:
        got = connection.execute(sa.select(people).where(people.c.name == "Ann")).mappings().one()
        assert {name: got[name] for name in row} == row
        assert got["active"] is True and got["seen"].tzinfo is not None
        total = sa.select(sa.func.count(), sa.func.sum(people.c.balance)).where(people.c.id > 1)
        assert connection.execute(total).one() == (100, D("4950.00"))
        assert connection.scalars(sa.select(people.c.name).where(people.c.tags.contains(["a"]))).all() == ["Ann"]
        assert connection.scalars(sa.select(people.c.data["k"][0].as_integer()).where(people.c.data.is_not(None))).all() == [1]
        some = sa.select(people.c.name).where(people.c.name.in_(["n1", "n2", "zz"])).order_by(people.c.id.desc())
        assert connection.scalars(some).all() == ["n2", "n1"]
        some = sa.select(people.c.name).where(people.c.name.ilike("N9%")).order_by(people.c.name).limit(3).offset(1)
        assert connection.scalars(some).all() == ["n90", "n91", "n92"]
        ranked = sa.select(people.c.name, sa.func.row_number().over(order_by=people.c.id)).order_by(people.c.id).limit(1)
        assert connection.execute(ranked).one() == ("Ann", 1)
        late = sa.select(sa.exists().where(people.c.balance > 98))
        assert connection.scalar(late) is True
        cte = sa.select(people.c.balance).where(people.c.balance < 10).cte("small")
        assert connection.scalar(sa.select(sa.func.max(cte.c.balance))) == D("9.00")
        assert connection.scalar(sa.select(sa.func.sum(sa.case((people.c.balance > 50, 1), else_=0)))) == 49
    with engine.begin() as connection:
        upsert = pg.insert(people).values(name="Ann", email="a@x", balance=1)
        upsert = upsert.on_conflict_do_update(index_elements=["email"], set_={"balance": upsert.excluded.balance})
        assert connection.execute(upsert.returning(people.c.id, people.c.balance)).one() == (1, D("1.00"))
        changed = connection.execute(people.update().where(people.c.name == "n5").values(balance=people.c.balance + 1))
        assert changed.rowcount == 1
        assert connection.execute(people.delete().where(people.c.balance == 7)).rowcount == 1
    with pytest.raises(sa.exc.IntegrityError):
        with engine.begin() as connection:
            connection.execute(people.insert(), {"name": "Bob", "balance": -1})
    with engine.connect() as connection:
        for row in connection.execution_options(stream_results=True, max_row_buffer=10).execute(sa.select(people)):
            assert row.name
    meta.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []


def test_reflection(engine, schema):
    tables().create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW rich AS SELECT id, name FROM people WHERE balance > 100")
        connection.exec_driver_sql("CREATE SEQUENCE numbers")
    found = sa.inspect(engine)
    assert schema in found.get_schema_names()
    assert found.default_schema_name == schema
    assert sorted(found.get_table_names()) == ["counted", "pair", "people"]
    assert found.get_view_names() == ["rich"]
    assert "numbers" in found.get_sequence_names()
    assert found.has_table("people") and not found.has_table("nothing")
    columns = {column["name"]: column for column in found.get_columns("people")}
    assert isinstance(columns["name"]["type"], sa.VARCHAR) and columns["name"]["type"].length == 50
    assert columns["name"]["comment"] == "what it is called" and not columns["name"]["nullable"]
    assert (columns["balance"]["type"].precision, columns["balance"]["type"].scale) == (12, 2)
    assert "nextval" in columns["id"]["default"] and columns["id"]["autoincrement"]
    assert "0" in columns["balance"]["default"]
    assert columns["seen"]["type"].timezone is True
    assert isinstance(columns["tags"]["type"], pg.ARRAY)
    assert isinstance(columns["data"]["type"], pg.JSONB)
    assert isinstance(columns["raw"]["type"], pg.BYTEA)
    counted = {column["name"]: column for column in found.get_columns("counted")}
    assert counted["id"]["identity"]["always"] is True
    assert (counted["id"]["identity"]["start"], counted["id"]["identity"]["increment"]) == (10, 2)
    assert counted["twice"]["computed"]["persisted"] is True
    assert found.get_pk_constraint("pair")["constrained_columns"] == ["a", "b"]
    assert found.get_pk_constraint("people")["name"] == "people_pkey"
    uniques = {unique["name"]: unique["column_names"] for unique in found.get_unique_constraints("people")}
    assert uniques == {"people_email_key": ["email"], "name_born": ["name", "born"]}
    checks = found.get_check_constraints("people")
    assert [check["name"] for check in checks] == ["balance_positive"]
    assert "balance >= " in checks[0]["sqltext"]
    indexes = {index["name"]: index for index in found.get_indexes("people")}
    assert set(indexes) == {"ix_people_name", "people_late", "people_email_key", "name_born"}
    assert indexes["people_late"]["column_names"] == ["born", "name"]
    assert indexes["people_late"]["column_sorting"] == {"born": ("desc",)}
    assert indexes["people_email_key"]["unique"] and not indexes["ix_people_name"]["unique"]
    assert found.get_foreign_keys("people") == []
    assert found.get_table_comment("people") == {"text": "all the people"}
    assert "balance" in found.get_view_definition("rich")
    assert [column["name"] for column in found.get_columns("rich")] == ["id", "name"]
    again = sa.MetaData()
    again.reflect(engine, views=True)
    assert sorted(again.tables) == ["counted", "pair", "people", "rich"]
    assert again.tables["people"].c.balance.type.scale == 2
    assert found.get_enums() == [] and found.get_domains() == []
    again = sa.MetaData()
    again.reflect(engine, schema=schema)
    assert f"{schema}.people" in again.tables


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), unique=True)
    books: orm.Mapped[list["Book"]] = orm.relationship(
        back_populates="author", primaryjoin="Author.id == foreign(Book.author_id)",
        cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    id: orm.Mapped[uuid.UUID] = orm.mapped_column(primary_key=True, default=uuid.uuid4)
    title: orm.Mapped[str]
    price: orm.Mapped[D] = orm.mapped_column(sa.Numeric(8, 2))
    author_id: orm.Mapped[int] = orm.mapped_column(index=True)
    version: orm.Mapped[int] = orm.mapped_column()
    author: orm.Mapped[Author] = orm.relationship(
        back_populates="books", primaryjoin="Author.id == foreign(Book.author_id)")
    __mapper_args__ = {"version_id_col": version}


def test_orm(engine):
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        authors = [Author(name=f"a{n}", books=[Book(title=f"b{n}-{m}", price=D(m)) for m in range(3)])
                   for n in range(20)]
        session.add_all(authors)
        session.commit()
        loaded = session.scalars(sa.select(Author).options(orm.selectinload(Author.books)).order_by(Author.id)).all()
        assert [len(author.books) for author in loaded] == [3] * 20
        joined = sa.select(Author).options(orm.joinedload(Author.books)).where(Author.name == "a3")
        assert len(session.scalars(joined).unique().one().books) == 3
        per = (sa.select(Author.name, sa.func.count(Book.id), sa.func.avg(Book.price))
               .join(Author.books).group_by(Author.name).having(sa.func.count(Book.id) > 2)
               .order_by(Author.name).limit(2))
        assert session.execute(per).all() == [("a0", 3, D("1")), ("a1", 3, D("1"))]
        count = (sa.select(sa.func.count(Book.id)).where(Book.author_id == Author.id)
                 .correlate(Author).scalar_subquery())
        assert session.execute(sa.select(Author.name, count).order_by(Author.id).limit(1)).one() == ("a0", 3)
        book = session.scalars(sa.select(Book).where(Book.title == "b5-1")).one()
        book.price = D("9.99")
        session.commit()
        assert book.version == 2
        with pytest.raises(sa.exc.IntegrityError):
            with session.begin_nested():
                session.add(Author(name="a1"))
                session.flush()
        session.delete(session.get(Author, 1))
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 57
        session.execute(sa.update(Book).where(Book.price < 1).values(price=Book.price + 5))
        session.execute(sa.delete(Book).where(Book.author_id.in_(sa.select(Author.id).where(Author.name == "a2"))))
        session.commit()
        assert session.scalar(sa.select(sa.func.count(Book.id))) == 54
        locked = session.scalars(sa.select(Author).where(Author.id == 4).with_for_update()).one()
        assert locked.name == "a3"
        session.rollback()
    Base.metadata.drop_all(engine)


def test_asyncio(schema):
    async def work():
        url = f"postgresql+asyncpg://{ADDRESS}".split("?")[0]
        engine = sa_asyncio.create_async_engine(
            url, connect_args={"server_settings": {"search_path": schema}, **tls()})
        async with engine.begin() as connection:
            await connection.run_sync(tables().create_all)
            people = tables().tables["people"]
            await connection.execute(people.insert(), [{"name": f"n{n}"} for n in range(5)])
        async with sa_asyncio.AsyncSession(engine) as session:
            assert await session.scalar(sa.select(sa.func.count()).select_from(people)) == 5
        async with engine.connect() as connection:
            names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
            assert sorted(names) == ["counted", "pair", "people"]
        await engine.dispose()

    asyncio.run(work())


def tls():
    return {"ssl": os.environ["CLIENTS_SSL"]} if "CLIENTS_SSL" in os.environ else {}
