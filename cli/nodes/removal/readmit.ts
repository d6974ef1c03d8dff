import { formatDuration } from '../../../internal/clock/index.ts';
import { randomUUID } from 'node:crypto';
import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import { OperatorApi, type RemovedMachine } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import { formatTable } from '../../host/index.ts';
import { openSigner } from '../../sign/index.ts';
import { callCurator } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';

const MIN_BEGINNING = 8;

/** `cluster node ls --removed`: machines that are refused under every policy, and those that an owner readmitted. */
export async function runRemovedList(context: CommandContext): Promise<void> {
  const { removed } = await callCurator(context, (_, call, of) => of(OperatorApi).listDocuments({}, call));
  const views = removed.map((each) => ({
    identity: printable(each.identity),
    name: printable(each.name),
    nodeId: printable(each.nodeId),
    removal: each.removal,
    removedMs: Number(each.removedMs),
    removedBy: printable(each.removedBy),
    readmitted: each.readmitted,
  }));
  const nowMs = context.ports.clock.nowMs();
  context.host.result({ removed: views }, () =>
    views.length === 0
      ? 'No machine was removed.'
      : formatTable(
          ['IDENTITY', 'NAME', 'REMOVED BY', 'READMITTED', 'AGE'],
          views.map((each) => [
            each.identity,
            each.name,
            each.removedBy,
            each.readmitted ? 'yes' : 'no',
            formatDuration(nowMs - each.removedMs),
          ]),
        ),
  );
}

/** `cluster node readmit`: an owner lets a machine that was removed ask again. By its name, its node id or its identity. */
export async function runReadmit(context: CommandContext, which: string): Promise<void> {
  const signer = await openSigner(context);
  if (signer === undefined)
    throw new OwnerDocumentError(
      'owner-document-required',
      `readmitting ${which}: the key in use is no owner key`,
    );
  const found = removedAs(signer.removed, which);
  const open = found.filter(({ readmitted }) => !readmitted);
  const documents = open.map(({ identity, removal }) => signer.sign('readmission', { identity, removal }));
  const mutation = { idempotencyKey: randomUUID() };
  if (documents.length > 0)
    await callCurator(context, (_, call, of) => of(OperatorApi).putDocuments({ documents, mutation }, call));
  const identities = found.map(({ identity }) => printable(identity));
  context.host.result({ identities, readmitted: open.length }, () =>
    [
      open.length === 0 ? `${which} is readmitted already.` : `${which} may ask to join again, for 30 days.`,
      ...identities.map((identity) => `  ${identity}`),
      'It is decided about like any other machine. Make it fresh first, as root on it: cluster node reset --help',
    ].join('\n'),
  );
}

/**
 * A removal is on record by hardware and by node key: one machine may have two. @throws AdminError `nodes-removed-unknown`
 * unless exactly one machine is meant
 */
function removedAs(removed: readonly RemovedMachine[], which: string): readonly RemovedMachine[] {
  const isMeant = ({ identity, name, nodeId }: RemovedMachine): boolean =>
    [name, nodeId, identity].includes(which) ||
    (which.length >= MIN_BEGINNING &&
      identity.replace(/^[a-z0-9-]+:/, '').startsWith(which.replace(/^[a-z0-9-]+:/, '')));
  const nodes = new Set(removed.filter(isMeant).map(({ nodeId }) => nodeId));
  const [nodeId, ...others] = [...nodes];
  if (nodeId === undefined || others.length > 0)
    throw new NodesError(
      'nodes-removed-unknown',
      `readmitting ${which}: ${nodeId === undefined ? 'no machine that was removed' : `${nodes.size} machines`}`,
    );
  return removed.filter((each) => each.nodeId === nodeId);
}
