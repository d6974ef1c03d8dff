import { z } from 'zod';
import { isSignedByRawEd25519Key, labeledStatement, signEd25519, u64 } from '../../internal/crypto/index.ts';
import { readJson, type FilePort } from '../../internal/file/index.ts';
import type { Secret } from '../../internal/secret/index.ts';

const LABEL = 'cluster/backup/proof/v1\0';
const MAX_BYTES = 4 * 1024;
const SUFFIX = '.proof';
const shape = z.strictObject({
  version: z.literal(1),
  /** SHA-256 (hex) of the whole backup file. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  provedMs: z.int().positive(),
  signature: z.base64(),
});

/** The content of a proof. */
export interface Proved {
  readonly clusterId: string;
  readonly sha256: string;
  readonly provedMs: number;
}

/** Saves a proof beside a backup: the signed statement of an owner who has decrypted and restored this backup. */
export async function saveProof(
  files: Pick<FilePort, 'writeAtomic'>,
  file: string,
  { keyPem, ...proved }: Proved & { readonly keyPem: Secret<string> },
): Promise<void> {
  const signature = Buffer.from(signEd25519(keyPem, statementOf(proved))).toString('base64');
  const { sha256, provedMs } = proved;
  const text = JSON.stringify(shape.parse({ version: 1, sha256, provedMs, signature }));
  await files.writeAtomic(proofPath(file), `${text}\n`, { mode: 0o600 });
}

/** When an owner proved exactly this file; undefined if no owner did, or if the file was replaced since. */
export async function readProofMs(
  files: Pick<FilePort, 'read'>,
  file: string,
  by: { readonly sha256: string; readonly clusterId: string; readonly owners: readonly Uint8Array[] },
): Promise<number | undefined> {
  const { data } = shape.safeParse(await readJson(files, proofPath(file), MAX_BYTES));
  if (data?.sha256 !== by.sha256) return undefined;
  const { provedMs, sha256 } = data;
  const statement = statementOf({ clusterId: by.clusterId, sha256, provedMs });
  const signature = new Uint8Array(Buffer.from(data.signature, 'base64'));
  return by.owners.some((key) => isSignedByRawEd25519Key(key, statement, signature)) ? provedMs : undefined;
}

/** Removes a backup, then its proof. */
export async function removeBackup(files: Pick<FilePort, 'remove'>, file: string): Promise<void> {
  await files.remove(file);
  await files.remove(proofPath(file));
}

/** Whether this is the name of a proof. */
export function isProof(name: string): boolean {
  return name.endsWith(SUFFIX);
}

function proofPath(file: string): string {
  return `${file}${SUFFIX}`;
}

function statementOf({ clusterId, sha256, provedMs }: Proved): Uint8Array {
  return labeledStatement(LABEL, clusterId, Buffer.from(sha256, 'hex'), u64(BigInt(provedMs)));
}
