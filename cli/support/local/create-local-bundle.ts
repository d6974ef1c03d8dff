import { parseRecipient } from '../../../internal/backup/index.ts';
import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import { VERSION } from '../../../internal/versions/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { SupportError } from '../errors.ts';
import { refuseExisting, writeBundle } from '../write-bundle.ts';
import { collectLocalFacts } from './collect-local-facts.ts';
import { localFiles } from './local-files.ts';
import type { LocalPorts } from './local-ports.ts';
import { readKnownRecipients, readNodeIdentity, type NodeIdentity } from './node-identity.ts';

/** Long enough for some writes to etcd. */
const WINDOW_MS = 5_000;
const IDENTITY_MS = 30_000;

/** Flags of `cluster support bundle --local`. */
export interface LocalBundleOptions {
  /** Path of the new file. */
  readonly to: string;
  /** Recovery keys ("age1…") that open the bundle, besides those that the owner has named for the state disk. */
  readonly recipients: readonly string[];
  /** Lines of each log. */
  readonly lines: number;
  /** Time between two readings of the metrics; only tests set it. */
  readonly windowMs?: number;
  /** Time for each source; only tests set it. */
  readonly sourceMs?: number;
}

/**
 * `cluster support bundle --local`, as root on a machine: collects what the machine itself knows, and needs neither agent nor API
 * server, etcd or network. What cannot be collected is listed with its reason and never ends the command.
 * @throws SupportError `support-not-root`, `support-recipient-missing`, `support-file-exists`
 */
export async function runLocalSupportBundle(
  context: CommandContext,
  local: LocalPorts,
  { to, recipients: named, lines, windowMs = WINDOW_MS, sourceMs }: LocalBundleOptions,
): Promise<void> {
  const { files } = context.ports;
  await refuseExisting(context, to);
  for (const recipient of named) parseRecipient(recipient);
  const recipients = [...new Set([...(await readKnownRecipients(files)), ...named])];
  if (recipients.length === 0)
    throw new SupportError(
      'support-recipient-missing',
      'making a support bundle on this machine: no recipient, and the machine knows none',
    );
  const limits = sourceMs === undefined ? {} : { sourceMs };
  const identity = await identityOf(context, local, limits);
  await writeBundle(context, {
    to,
    recipients,
    collect: async (collecting) => {
      collecting.onFile('facts of this machine');
      const facts = await collectLocalFacts(context, local, { identity, windowMs, ...limits });
      const { clusterId, clusterName, takenMs } = facts;
      return {
        head: { clusterId, clusterName, takenMs, cliVersion: VERSION },
        files: localFiles({ ...collecting, ...limits, context }, local, { identity, facts, lines }),
      };
    },
  });
}

/** Who this machine is; if its disk hangs, a machine that is no node. */
async function identityOf(
  { ports: { files, clock }, signal }: CommandContext,
  { machine }: LocalPorts,
  { sourceMs: ms = IDENTITY_MS }: { readonly sourceMs?: number },
): Promise<NodeIdentity> {
  const hostname = machine.hostname();
  const limit = { what: 'reading the membership', ms, clock, signal };
  try {
    return await withTimeout(limit, () => readNodeIdentity(files, hostname));
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    const unknown = { clusterId: '', clusterName: '', nodeId: '', address: undefined };
    return { ...unknown, name: hostname, isMember: false, isControlPlane: false, peers: [] };
  }
}
