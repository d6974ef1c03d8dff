import { recoveryKeyOfOwner } from '../../../internal/backup/index.ts';
import { MINUTE_MS } from '../../../internal/clock/index.ts';
import { diskRotationStatement, signEd25519 } from '../../../internal/crypto/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { DiskRotationReport } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator, findNode, readCaller, type Caller } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';
import { readVerifier } from '../fresh-evidence.ts';
import { readVerifiedDiskSeal, type DiskKeyState, type NodeDiskSeal } from './read-disk-seal.ts';

const ANSWER_MS = 90_000;
/** The node seals, tests and writes; a worker asks the signers for its share first. */
const ROTATE_MS = 210_000;
/** How long an order counts. */
const ORDER_MS = 10 * MINUTE_MS;
/** The agent starts again after the rotation, and its session with the curator with it. */
const VERIFY_MS = 3 * MINUTE_MS;
const RETRY_MS = 2_000;

/** What the new keys do not end: also in the result of the command, because it is easily misunderstood. */
const STAYS = [
  'An earlier copy of the disk, or of its first 16 MiB, still opens with an earlier recovery key, and with earlier shares that somebody knows.',
  'The volume key, which encrypts the data, stays the same: who got it from such a copy reads the disk of today too. Only a new disk has another one (`cluster node reset`).',
] as const;

/** Flags of `cluster node rotate-disk-keys`. */
interface RotateDiskKeysOptions {
  readonly dryRun: boolean;
  readonly yes: boolean;
}

/**
 * `cluster node rotate-disk-keys`: gives the state disk of a node new keys while it is mounted, under the signature of an owner. The order names the sealed share
 * that is replaced, and the recipients of the new recovery key, as the TPM of the machine has vouched for them.
 * @throws NodesError, RemoteError of the node: `disk-not-provisioned`, `disk-rotation-*`, `disk-share-moving`, `disk-locked`, and of a missing share
 */
export async function runRotateDiskKeys(
  context: CommandContext,
  name: string,
  options: RotateDiskKeysOptions,
): Promise<void> {
  const { host } = context;
  const caller = await readCaller(context);
  const verifier = await readVerifier(context);
  const node = await findNode(context, name);
  const read = (): Promise<NodeDiskSeal> =>
    readVerifiedDiskSeal(context, verifier, { node, asked: name, timeoutMs: ANSWER_MS });
  const seal = await host.step('rotate-disk-read', `Asking ${node.name} about its state disk`, read);
  const { keys } = seal;
  const doing = `rotating the keys of the state disk of ${printable(node.name)}`;
  if (keys === undefined) throw new NodesError('nodes-disk-not-rotatable', doing);
  const own = recoveryKeyOfOwner(caller.keyPem).recipient;
  const view = viewOf(node, seal, { keys, own });
  const text = render(view, own);
  if (options.dryRun) return host.result({ ...view, dryRun: true }, () => `${text}\n\nNothing was changed.`);
  host.say('rotate-disk-changes', text, view);
  await confirm(context, doing, options);
  const expiresMs = BigInt(context.ports.clock.nowMs() + ORDER_MS);
  const order = orderFor(caller, { node, uuid: seal.uuid, keys, expiresMs });
  const report = await host.step('rotate-disk', `Replacing the keys on ${node.name}`, () =>
    sendOrder(context, node, order),
  );
  await host.step('rotate-disk-verify', `Verifying the new keys of ${node.name}`, () =>
    untilReplaced(context, { read, earlier: keys.seal, doing }),
  );
  const { isClusterShareNew, endedApprovals, isRepeated } = report;
  const clusterShare = isClusterShareNew ? 'new' : 'kept';
  host.result({ ...view, clusterShare, endedApprovals, isRepeated, stays: STAYS }, () =>
    [`The state disk of ${view.node} has new keys; the earlier ones no longer open it.`, '', ...STAYS].join(
      '\n',
    ),
  );
}

function viewOf(
  node: Node,
  { uuid, approved }: NodeDiskSeal,
  { keys, own }: { readonly keys: DiskKeyState; readonly own: string },
) {
  const { recipients, threshold, keepsClusterShare } = keys;
  return {
    node: printable(node.name),
    disk: printable(uuid),
    nodeShare: 'new',
    clusterShare: keepsClusterShare ? 'new' : 'kept',
    recovery: {
      recipients: recipients.map((each) => printable(each)),
      threshold,
      includesOwnKey: recipients.includes(own),
    },
    endedApprovals: approved.length,
  };
}

function render(
  { node, disk, clusterShare, recovery, endedApprovals }: ReturnType<typeof viewOf>,
  own: string,
): string {
  const { recipients, threshold, includesOwnKey } = recovery;
  return [
    `The state disk of ${node} (${disk}) gets new keys while it is mounted:`,
    '  node share     new, sealed to the TPM; the TPM no longer unseals the earlier one',
    clusterShare === 'new'
      ? '  cluster share  new, sealed to the TPM; the TPM no longer unseals the earlier one'
      : '  cluster share  stays: a signer derives it from its secret, the TPM and the disk',
    `  recovery key   new; ${threshold} of these recipients must act:`,
    ...recipients.map((each) => `    ${each}${each === own ? '  (your owner key)' : ''}`),
    ...(includesOwnKey ? [] : ['  Your owner key is not among them: you cannot recover this disk.']),
    ...(endedApprovals === 0
      ? []
      : [
          `  approvals      end (sets of registers: ${endedApprovals}); run \`cluster attest approve ${node}\` again before an update`,
        ]),
  ].join('\n');
}

async function confirm(
  { host }: CommandContext,
  doing: string,
  { yes }: RotateDiskKeysOptions,
): Promise<void> {
  if (yes) return;
  const question = 'Are these the recipients, and should the disk get new keys?';
  if (host.interactive && (await host.confirm(question, false))) return;
  throw new NodesError('nodes-rotation-not-confirmed', doing);
}

/** The order, signed with the key of the owner who runs the command. */
function orderFor(
  { keyPem, clusterId, vouchers, pubKey: ownerPubKey }: Caller,
  {
    node: { nodeId },
    uuid,
    keys,
    expiresMs,
  }: { readonly node: Node; readonly uuid: string; readonly keys: DiskKeyState; readonly expiresMs: bigint },
) {
  const { seal, recipients, threshold } = keys;
  const statement = diskRotationStatement({
    clusterId,
    nodeId,
    uuid,
    seal,
    recipients,
    threshold,
    expiresMs,
  });
  return {
    ...{ ownerPubKey, signature: signEd25519(keyPem, statement), vouchers: [...vouchers] },
    ...{ uuid, nodeSeal: seal, recoveryRecipients: [...recipients], recoveryThreshold: threshold },
    expiresMs,
  };
}

/**
 * Reads the seal again until the TPM of the machine vouches for another one. The report passed a curator, which can drop the order and report
 * success. @throws NodesError `nodes-not-verified` for the earlier keys, RemoteError while the node does not answer
 */
async function untilReplaced(
  { ports: { clock }, signal }: CommandContext,
  of: { readonly read: () => Promise<NodeDiskSeal>; readonly earlier: Uint8Array; readonly doing: string },
): Promise<void> {
  const { read, earlier, doing } = of;
  const deadlineMs = clock.monotonicMs() + VERIFY_MS;
  for (;;) {
    try {
      const { keys } = await read();
      if (keys !== undefined && !Buffer.from(keys.seal).equals(earlier)) return;
      throw new NodesError('nodes-not-verified', `${doing}: the machine still has the earlier keys`);
    } catch (error) {
      if (findCoded(error)?.retryable !== true || clock.monotonicMs() > deadlineMs) throw error;
      await clock.sleep(RETRY_MS, signal);
    }
  }
}

async function sendOrder(
  context: CommandContext,
  { nodeId, name }: Node,
  order: ReturnType<typeof orderFor>,
): Promise<DiskRotationReport> {
  const { report } = await callCurator(context, ({ nodeStreams }) =>
    nodeStreams.rotateDiskKeys({ node: nodeId, order }, { timeoutMs: ROTATE_MS }),
  );
  if (report !== undefined) return report;
  throw new NodesError('nodes-not-verified', `reading the answer of ${printable(name)}: malformed`);
}
