import { parseRecipient, recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller } from '../cluster/index.ts';
import { collectFacts } from '../doctor/index.ts';
import { collectFiles } from './collect-files.ts';
import { SupportError } from './errors.ts';
import { refuseExisting, writeBundle } from './write-bundle.ts';

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
  const { to, lines, windowMs = WINDOW_MS } = options;
  await refuseExisting(context, to);
  const caller = await readCaller(context);
  const recipients = [...new Set(options.recipients)];
  for (const recipient of recipients) parseRecipient(recipient);
  if (caller.kind !== 'operator') recipients.unshift(recoveryKeyOfOwner(caller.keyPem).recipient);
  if (recipients.length === 0)
    throw new SupportError('support-recipient-missing', 'making a support bundle: no recipient');
  await writeBundle(context, {
    to,
    recipients,
    collect: async (collecting) => {
      collecting.onFile('facts of all nodes');
      const facts = await collectFacts(context, { nodes: [], windowMs });
      const { clusterId, clusterName, takenMs } = facts;
      return {
        head: { clusterId, clusterName, takenMs, cliVersion: VERSION },
        files: collectFiles({ ...collecting, context }, { facts, nodes, lines }),
      };
    },
  });
}

/** `cluster support recipient`: the public recovery key of the owner. @throws SupportError `support-recipient-missing` */
export async function showRecipient(context: CommandContext): Promise<void> {
  const caller = await readCaller(context);
  if (caller.kind === 'operator')
    throw new SupportError('support-recipient-missing', 'printing a recovery key: no owner key');
  const { recipient } = recoveryKeyOfOwner(caller.keyPem);
  context.host.result({ recipient }, () => recipient);
}
