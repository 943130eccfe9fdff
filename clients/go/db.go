package scylla

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// PgxDB is what a [Client] needs of pgx. A *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn and pgx.Tx have it.
type PgxDB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// SQLDB is what a [Client] needs of database/sql. A *sql.DB, *sql.Conn and *sql.Tx have it.
type SQLDB interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type scanner interface {
	Scan(dest ...any) error
}

// querier runs a statement and calls row for each row. Arguments are strings or nil, and the statement
// casts them, so that each driver sends the same in each of its modes.
type querier func(ctx context.Context, text string, args []any, row func(scanner) error) error

func pgxQuerier(db PgxDB) querier {
	return func(ctx context.Context, text string, args []any, row func(scanner) error) error {
		rows, err := db.Query(ctx, text, args...)
		if err != nil {
			return translate(err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
		}
		return translate(rows.Err())
	}
}

func sqlQuerier(db SQLDB) querier {
	return func(ctx context.Context, text string, args []any, row func(scanner) error) error {
		rows, err := db.QueryContext(ctx, text, args...)
		if err != nil {
			return translate(err)
		}
		defer func() { _ = rows.Close() }() // Err has what went wrong
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
		}
		return translate(rows.Err())
	}
}
