import { createHash } from 'node:crypto';
import { parseRecipient, recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller } from '../cluster/index.ts';
import { collectFacts } from '../doctor/index.ts';
import { formatBytes, formatTable } from '../host/index.ts';
import { collectFiles } from './collect-files.ts';
import { SupportError } from './errors.ts';
import { encodeSupportFile, type SupportManifest } from './support-file.ts';

const FILE_MODE = 0o600;
/** Long enough for some writes to etcd. */
const WINDOW_MS = 5_000;

/** Flags of `cluster support bundle`. */
export interface SupportBundleOptions {
  /** Path of the new file. */
  readonly to: string;
  /** Recovery keys ("age1…") that open the bundle, besides the recovery key of the owner who creates it. */
  readonly recipients: readonly string[];
  /** Lines of each log. */
  readonly lines: number;
  /** Time between two readings of the metrics; only tests set it. */
  readonly windowMs?: number;
}

/**
 * `cluster support bundle`: collects logs, events, states and the doctor's facts without secrets, and writes them encrypted. What
 * cannot be collected is listed with its reason; only a workspace without a cluster ends the command.
 * @param nodes the nodes whose logs and metrics to collect; empty: all
 */
export async function runSupportBundle(
  context: CommandContext,
  options: SupportBundleOptions,
  nodes: readonly string[],
): Promise<void> {
  const { host, ports } = context;
  const { to, lines, windowMs = WINDOW_MS } = options;
  if ((await ports.files.stat(to)) !== undefined)
    throw new SupportError('support-file-exists', `making support bundle ${to}: the file exists`);
  const caller = await readCaller(context);
  const recipients = [...new Set(options.recipients)];
  for (const recipient of recipients) parseRecipient(recipient);
  if (caller.kind !== 'operator') recipients.unshift(recoveryKeyOfOwner(caller.keyPem).recipient);
  if (recipients.length === 0)
    throw new SupportError('support-recipient-missing', 'making a support bundle: no recipient');
  const missing: SupportManifest['missing'] = [];
  const partial = `${to}.partial`;
  const written = await host.step('support-bundle', 'Collecting', async (progress) => {
    await ports.files.remove(partial);
    progress.update('facts of all nodes');
    const facts = await collectFacts(context, { nodes: [], windowMs });
    const { clusterId, clusterName, takenMs } = facts;
    const onFile = (path: string): void => progress.update(path);
    const files = collectFiles(context, { facts, nodes, lines, missing, onFile });
    const head = { clusterId, clusterName, takenMs, cliVersion: VERSION };
    return write(encodeSupportFile(head, files, { missing, recipients }), { partial, to });
  });
  const result = { file: to, ...written, recipients, missing };
  host.result(result, () =>
    [
      `File: ${to}, ${formatBytes(written.sizeBytes)}, SHA-256 ${written.sha256}`,
      ...recipients.map((recipient) => `Opened by: ${recipient}`),
      ...(missing.length === 0
        ? []
        : [
            '',
            formatTable(
              ['NOT COLLECTED', 'REASON'],
              missing.map(({ path, error }) => [path, printable(error)]),
            ),
          ]),
      '',
      `Look at it before you send it: cluster support open ${to} --to DIRECTORY`,
    ].join('\n'),
  );
}

async function write(
  chunks: AsyncIterable<Uint8Array>,
  { partial, to }: { readonly partial: string; readonly to: string },
): Promise<{ readonly sizeBytes: number; readonly sha256: string }> {
  const streams = new DiskStreams();
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    await streams.writeAt(partial, sizeBytes, chunk);
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  await streams.publish(partial, to, FILE_MODE);
  return { sizeBytes, sha256: hash.digest('hex') };
}
