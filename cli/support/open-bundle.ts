import { dirname, join } from 'node:path';
import { parseRecoveryKey, recoveryKeyOfOwner, type RecoveryKey } from '../../internal/backup/index.ts';
import { MAX_FACTS_BYTES, parseFacts } from '../../internal/doctor/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import { DiskStreams, readText } from '../../internal/file/index.ts';
import { counted, printable } from '../../internal/printable/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller } from '../cluster/index.ts';
import { judgeFacts } from '../doctor/index.ts';
import { formatTable } from '../host/index.ts';
import { SupportError } from './errors.ts';
import { decodeSupportFile, MANIFEST, type SupportManifest } from './support-file.ts';

const IDENTITY = /^AGE-SECRET-KEY-1\S+$/m;
const FACTS = 'facts.json';

/** Flags of `cluster support open`. */
export interface SupportOpenOptions {
  /** Directory to create and to unpack into; undefined: nothing is written. */
  readonly to?: string;
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey?: string;
}

/**
 * `cluster support open`: decrypts a support bundle, compares it with its manifest and lets the doctor judge its facts. Needs no
 * cluster. With `to`, the directory appears only when the whole file was good.
 * @returns what `cluster doctor` would return for the same facts
 */
export async function runSupportOpen(
  context: CommandContext,
  file: string,
  { to, recoveryKey }: SupportOpenOptions,
): Promise<ExitName> {
  const { host, ports, signal } = context;
  if (to !== undefined && (await ports.files.stat(to)) !== undefined)
    throw new SupportError('support-file-exists', `opening a support bundle: ${to} exists`);
  const key = await readKey(context, recoveryKey);
  const chunks = new DiskStreams().readChunks(file, { signal });
  const partial = to === undefined ? undefined : `${to}.partial`;
  if (partial !== undefined) await ports.files.remove(partial);
  const { manifest, facts } = await unpack(context, decodeSupportFile(chunks, [key]), partial);
  if (facts.length > MAX_FACTS_BYTES)
    throw new SupportError('support-file-malformed', 'opening a support bundle: its facts are too large');
  const judged = judgeFacts(parseFacts(facts), []);
  if (partial !== undefined && to !== undefined) {
    const content = new TextEncoder().encode(`${JSON.stringify(manifest, null, 1)}\n`);
    await ports.files.writeAtomic(join(partial, MANIFEST), content, { mode: 0o600 });
    await ports.files.rename(partial, to);
  }
  const { clusterId, clusterName, takenMs, cliVersion, missing, files } = manifest;
  const about = { clusterId, clusterName, takenMs, cliVersion };
  host.result({ ...about, files, missing, ...judged.view, directory: to }, () =>
    [
      printable(`Support bundle of cluster ${clusterName} (${clusterId}), made by version ${cliVersion}`),
      `${counted(files.length, 'file')}, ${missing.length} could not be collected${to === undefined ? '' : `; unpacked to ${to}`}`,
      ...(missing.length === 0 ? [] : ['', tableOf(missing)]),
      '',
      judged.text,
    ].join('\n'),
  );
  return judged.verdict;
}

async function unpack(
  { ports }: CommandContext,
  members: ReturnType<typeof decodeSupportFile>,
  directory: string | undefined,
): Promise<{ readonly manifest: SupportManifest; readonly facts: Uint8Array }> {
  let facts: Uint8Array | undefined;
  for (;;) {
    const { done, value } = await members.next();
    if (done === true) {
      if (facts === undefined)
        throw new SupportError('support-file-malformed', `opening a support bundle: no ${FACTS}`);
      return { manifest: value, facts };
    }
    if (value.path === FACTS) facts = value.content;
    if (directory === undefined) continue;
    const path = join(directory, value.path);
    await ports.files.makeDirectory(dirname(path));
    await ports.files.writeAtomic(path, value.content, { mode: 0o600 });
  }
}

async function readKey(context: CommandContext, path: string | undefined): Promise<RecoveryKey> {
  if (path === undefined) return recoveryKeyOfOwner((await readCaller(context)).keyPem);
  const found = IDENTITY.exec((await readText(context.ports.files, path)) ?? '')?.[0];
  if (found === undefined)
    throw new SupportError('support-key-refused', `reading ${path}: no age identity found`);
  return parseRecoveryKey(new Secret(found));
}

function tableOf(missing: SupportManifest['missing']): string {
  return formatTable(
    ['NOT COLLECTED', 'REASON'],
    missing.map(({ path, error }) => [printable(path), printable(error)]),
  );
}
