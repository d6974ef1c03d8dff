import { remove, type KeySpace, type Write } from '../../internal/etcd/index.ts';

/** etcd refuses a transaction with more than 128 operations. */
const WRITES_PER_TRANSACTION = 100;

/** Writes everything, in several transactions. */
export async function writeInParts(
  etcd: KeySpace,
  writes: readonly Write[],
  signal: AbortSignal,
): Promise<void> {
  for (let from = 0; from < writes.length; from += WRITES_PER_TRANSACTION)
    await etcd.commit({ when: [], then: writes.slice(from, from + WRITES_PER_TRANSACTION) }, { signal });
}

/** Deletes all keys with these prefixes. */
export async function deleteAll(
  etcd: KeySpace,
  prefixes: readonly string[],
  { except, signal }: { readonly except: readonly string[]; readonly signal: AbortSignal },
): Promise<void> {
  const kept = new Set(except);
  for (const prefix of prefixes) {
    const { entries } = await etcd.list(prefix, { signal });
    const gone = entries.map(({ key }) => key).filter((key) => !kept.has(key));
    await writeInParts(etcd, gone.map(remove), signal);
  }
}
