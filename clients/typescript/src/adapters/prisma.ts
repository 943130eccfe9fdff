import type { Queryable, Row } from "../sql.js";

/** What this adapter needs of Prisma: a client, or the client of an interactive transaction. */
export interface PrismaLike {
  $queryRawUnsafe<Result = unknown>(text: string, ...values: any[]): PromiseLike<Result>;
}

/** Statements through Prisma, in its transaction if it is one. */
export function fromPrisma(prisma: PrismaLike): Queryable {
  return {
    query: async (text, values = []) => ({ rows: await prisma.$queryRawUnsafe<Row[]>(text, ...values) }),
  };
}
