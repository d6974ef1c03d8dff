import { join } from 'node:path';
import { z } from 'zod';
import type { EtcdFacts } from '../../internal/backup/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import { parseJson, type FilePort } from '../../internal/file/index.ts';
import { BackupCommandError } from './errors.ts';

const RESTORE_MS = 10 * 60_000;
const statusShape = z.object({ revision: z.int(), totalKey: z.int() });
const hashShape = z.object({ hash: z.int() });

/** What a restored snapshot contains. */
export interface ProvedSnapshot {
  readonly revision: number;
  /** Number of keys, counted once for each revision that is not compacted. */
  readonly keys: number;
  /** Whether the hash was compared; otherwise etcd compacted its history while the backup was taken. */
  readonly isHashCompared: boolean;
}

/**
 * Restores a snapshot of etcd into an empty data directory, and compares its revision and the hash of its data with the
 * values that the control plane recorded in the backup.
 * @throws BackupCommandError `backup-unproved`
 */
export async function proveSnapshot(
  { commands, files }: { readonly commands: CommandRunner; readonly files: FilePort },
  at: {
    readonly etcdutl: string;
    readonly snapshot: string;
    readonly directory: string;
    readonly name: string;
    readonly facts: EtcdFacts;
    readonly signal: AbortSignal;
  },
): Promise<ProvedSnapshot> {
  const { etcdutl, snapshot, directory, name, facts, signal } = at;
  const dataDir = join(directory, `${name}-data`);
  const db = join(dataDir, 'member', 'snap', 'db');
  const run = async (...args: readonly string[]): Promise<unknown> => {
    const argv = [etcdutl, ...args, '--write-out', 'json'] as const;
    return parseJson((await commands.run({ argv, signal, timeoutMs: RESTORE_MS })).stdout);
  };
  const unproved = (why: string): BackupCommandError =>
    new BackupCommandError('backup-unproved', `proving the ${name} snapshot: ${why}`);
  await files.remove(dataDir);
  // etcdutl refuses a snapshot whose SHA-256 does not match.
  const restore = [etcdutl, 'snapshot', 'restore', snapshot, '--data-dir', dataDir] as const;
  await commands.run({ argv: restore, timeoutMs: RESTORE_MS, signal }).catch((cause: unknown) => {
    const coded = findCoded(cause);
    // Without an exit code, a signal has ended it: the kernel, when memory is short, or an operator.
    if (coded?.code !== 'exec-failed' || coded.details['exitCode'] === undefined) throw cause;
    throw new BackupCommandError('backup-unproved', `restoring the ${name} snapshot`, { cause });
  });
  const { revision, totalKey } = statusShape.parse(await run('snapshot', 'status', db));
  if (BigInt(revision) < BigInt(facts.revision))
    throw unproved(`revision ${revision}, the control plane was at ${facts.revision}`);
  if (facts.hash !== undefined) {
    const { hash } = hashShape.parse(await run('hashkv', db, '--rev', facts.revision));
    if (hash !== facts.hash)
      throw unproved(`hash ${hash} at revision ${facts.revision}, the control plane had ${facts.hash}`);
  }
  await files.remove(dataDir);
  return { revision, keys: totalKey, isHashCompared: facts.hash !== undefined };
}
