import { join } from 'node:path';
import { z } from 'zod';
import { encodeBundle, VerifiedBundle } from '../../internal/attestation/collateral/index.ts';
import { parseJson, readText, type FilePort } from '../../internal/file/index.ts';
import { AttestError } from './errors.ts';

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
  const directory = join(workspace, 'collateral');
  const evaluationNumber = await readSeen(files, directory);
  const encoded = await files.read(join(directory, 'bundle.json'), MAX_BUNDLE_BYTES);
  return VerifiedBundle.load(encoded, evaluationNumber);
}

/** Saves the evaluation number, then the bundle. */
export async function saveCollateral(
  files: FilePort,
  workspace: string,
  verified: VerifiedBundle,
): Promise<void> {
  const directory = join(workspace, 'collateral');
  await files.makeDirectory(directory);
  const write = (name: string, text: string) =>
    files.writeAtomic(join(directory, name), text, { mode: 0o644 });
  const evaluationNumber = Math.max(verified.evaluationNumber, await readSeen(files, directory));
  await write('seen.json', `${JSON.stringify({ version: 1, evaluationNumber })}\n`);
  await write('bundle.json', encodeBundle(verified));
}

/** 0 before the first refresh. */
async function readSeen(files: FilePort, directory: string): Promise<number> {
  const path = join(directory, 'seen.json');
  const text = await readText(files, path, MAX_SEEN_BYTES);
  if (text === undefined) return 0;
  const { data, error: cause } = seenSchema.safeParse(parseJson(text));
  if (data === undefined) throw new AttestError('attest-collateral-store', `reading ${path}`, { cause });
  return data.evaluationNumber;
}
