import { join } from 'node:path';
import { z } from 'zod';
import { encodeBundle, VerifiedBundle } from '../../internal/attestation/collateral/index.ts';
import { parseJson, readText, type FilePort } from '../../internal/file/index.ts';
import { AttestError } from './errors.ts';

const BUNDLE = 'collateral/bundle.json';
const SEEN = 'collateral/seen.json';
const MAX_BUNDLE_BYTES = 16 << 20;
const MAX_SEEN_BYTES = 4096;
const seenSchema = z.strictObject({ version: z.literal(1), evaluationNumber: z.int().min(0) });

/**
 * The collateral of a workspace, empty before the first refresh. Its evaluation number is the highest one that the workspace ever
 * had: Intel increases it with each TCB recovery, so a bundle with a lower number is an old one that an attacker replays.
 *
 *     WORKSPACE/collateral/bundle.json     replaced as a whole, after it was verified
 *     WORKSPACE/collateral/seen.json       only increases, written before the bundle with the new number
 *
 * @throws AttestError `attest-collateral-store`
 */
export async function readCollateral(files: FilePort, workspace: string): Promise<VerifiedBundle> {
  const evaluationNumber = await readSeen(files, workspace);
  const bundle = await files.read(join(workspace, BUNDLE), MAX_BUNDLE_BYTES);
  return VerifiedBundle.load({ bundle, evaluationNumber });
}

/** Saves the evaluation number, then the bundle. */
export async function saveCollateral(files: FilePort, workspace: string, verified: VerifiedBundle) {
  const evaluationNumber = Math.max(verified.evaluationNumber, await readSeen(files, workspace));
  const write = (path: string, text: string) =>
    files.writeAtomic(join(workspace, path), text, { mode: 0o644 });
  await files.makeDirectory(join(workspace, 'collateral'));
  await write(SEEN, `${JSON.stringify({ version: 1, evaluationNumber })}\n`);
  await write(BUNDLE, encodeBundle(verified));
}

/** 0 before the first refresh. */
async function readSeen(files: FilePort, workspace: string): Promise<number> {
  const path = join(workspace, SEEN);
  const text = await readText(files, path, MAX_SEEN_BYTES);
  if (text === undefined) return 0;
  const { data, error: cause } = seenSchema.safeParse(parseJson(text));
  if (data === undefined) throw new AttestError('attest-collateral-store', `reading ${path}`, { cause });
  return data.evaluationNumber;
}
