import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { bindingOfDiskSeal } from '../../../internal/attestation/index.ts';
import { recoveryKeyOfOwner } from '../../../internal/backup/index.ts';
import {
  diskRotationStatement,
  generateEd25519Key,
  isSignedByRawEd25519Key,
} from '../../../internal/crypto/index.ts';
import { CodedError, defineErrors, retryable } from '../../../internal/errors/index.ts';
import {
  DiskRotationReportSchema,
  DiskSealSchema,
  type DiskRotationTask,
  type DiskSeal,
} from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { contextOf, createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { readCaller } from '../../cluster/index.ts';
import { createMachine, evidenceConfiguration, evidenceFor } from '../fake-evidence.ts';
import { runRotateDiskKeys } from './rotate-disk-keys.ts';

const ZERO = new Uint8Array(32);
const FOREIGN = recoveryKeyOfOwner(generateEd25519Key()).recipient;
const options = { dryRun: false, yes: true };
const codes = defineErrors({ 'node-away': retryable.peer.unreachable('The node is away.', 'Wait.') });

/** A node with a state disk, and a curator that may change what it says. */
async function createWorld() {
  const { key, record } = createMachine('a');
  const world = {
    seal: {} as Partial<DiskSeal>,
    sent: [] as DiskRotationTask[],
    report: { isClusterShareNew: true, endedApprovals: 0, isRepeated: false },
    forge: (bytes: Uint8Array): Uint8Array => bytes,
    /** Whether the curator passes the order on. */
    isHonest: true,
    /** Calls that fail because the agent starts again. */
    away: 0,
  };
  const encoded = (): Uint8Array => toBinary(DiskSealSchema, create(DiskSealSchema, world.seal as DiskSeal));
  const harness = await createCuratorHarness(
    { getNode: async () => ({ node: record }) },
    {},
    {
      getDiskSeal: async ({ nonce }: { readonly nonce: Uint8Array }) => {
        if (world.sent.length > 0 && world.away-- > 0) throw new CodedError(codes, 'node-away', 'asking');
        const { clusterId } = harness;
        const binding = bindingOfDiskSeal({ clusterId, nodeId: record.nodeId, nonce }, encoded());
        const { variant, evidence } = evidenceFor(key, { clusterId, binding });
        return { nodeId: record.nodeId, report: { seal: world.forge(encoded()), variant, evidence } };
      },
      rotateDiskKeys: async ({ order }) => {
        if (order !== undefined) world.sent.push(order);
        if (world.isHonest) world.seal = { ...world.seal, nodeSeal: new Uint8Array(32).fill(4) };
        return { report: create(DiskRotationReportSchema, world.report) };
      },
    },
  );
  await harness.files.writeAtomic('/owner/cluster.yaml', evidenceConfiguration());
  const context = contextOf(harness.files, '/owner');
  const caller = await readCaller(context);
  const own = recoveryKeyOfOwner(caller.keyPem).recipient;
  world.seal = {
    ...{ uuid: 'e69a2e66-2bc8-4695-b852-75f129bb9e54', generation: 5n, opens: true },
    ...{ registers: { 4: ZERO, 7: ZERO }, keepsClusterShare: true },
    ...{ nodeSeal: new Uint8Array(32).fill(3), recoveryRecipients: [own], recoveryThreshold: 1 },
  };
  return Object.assign(harness, {
    ...{ world, context, caller, own, nodeId: record.nodeId },
    rotate: (changed: Partial<typeof options> = {}) =>
      runRotateDiskKeys(context, 'n2', { ...options, ...changed }),
    said: (): string => JSON.stringify(context.host.records),
  });
}

let cluster: Awaited<ReturnType<typeof createWorld>>;
beforeEach(async () => void (cluster = await createWorld()));
afterEach(async () => cluster[Symbol.asyncDispose]());

const coded = (code: string): unknown => expect.objectContaining({ code });

describe('runRotateDiskKeys()', () => {
  test('signs the seal and the recipients that the machine names, for this node and disk', async () => {
    await cluster.rotate();
    const [order] = cluster.world.sent;
    if (order === undefined) throw new Error('nothing was sent');
    const {
      uuid,
      nodeSeal: seal,
      recoveryRecipients: recipients,
      recoveryThreshold: threshold,
      expiresMs,
    } = order;
    expect({ uuid, seal, recipients, threshold }).toEqual({
      ...{ uuid: cluster.world.seal.uuid, seal: new Uint8Array(32).fill(3) },
      ...{ recipients: [cluster.own], threshold: 1 },
    });
    const { clusterId, nodeId, caller } = cluster;
    const statement = diskRotationStatement({
      ...{ clusterId, nodeId, uuid, seal, recipients, threshold, expiresMs },
    });
    expect(Number(expiresMs) - Date.now()).toBeLessThanOrEqual(600_000);
    expect(isSignedByRawEd25519Key(caller.pubKey, statement, order.signature)).toBe(true);
    expect(order.ownerPubKey).toEqual(caller.pubKey);
    expect(cluster.context.host.answered).toMatchObject({
      ...{ node: 'n2', clusterShare: 'new', isRepeated: false },
      recovery: { recipients: [cluster.own], threshold: 1, includesOwnKey: true },
    });
  });

  test('notices a curator that drops the order and reports success', async () => {
    cluster.world.isHonest = false;
    await expect(cluster.rotate()).rejects.toEqual(coded('nodes-not-verified'));
    expect(cluster.world.sent).toHaveLength(1);
    expect(cluster.context.host.answered).toBeUndefined();
  });

  test('waits for the agent that starts again before it verifies the new keys', async () => {
    cluster.world.away = 1;
    await cluster.rotate();
    expect(cluster.context.host.answered).toMatchObject({ node: 'n2', clusterShare: 'new' });
  });

  test('says that earlier copies still open with an earlier recovery key, and that the volume key stays', async () => {
    await cluster.rotate();
    const { stays } = cluster.context.host.answered as { readonly stays: readonly string[] };
    expect(stays.join(' ')).toMatch(
      /earlier copy of the disk.* earlier recovery key.* volume key.* stays the same/,
    );
  });

  test('shows the recipients, and that the key of the caller is not among them', async () => {
    cluster.world.seal = { ...cluster.world.seal, recoveryRecipients: [FOREIGN] };
    await cluster.rotate({ dryRun: true });
    expect(cluster.world.sent).toEqual([]);
    expect(cluster.context.host.answered).toMatchObject({
      ...{ dryRun: true, recovery: { recipients: [FOREIGN], includesOwnKey: false } },
    });
  });

  test('says before it asks that a share of a signer stays, and how many approvals end', async () => {
    const approved = [{ registers: { 4: ZERO, 7: ZERO } }] as never;
    cluster.world.seal = { ...cluster.world.seal, keepsClusterShare: false, approved };
    cluster.world.report = { isClusterShareNew: false, endedApprovals: 1, isRepeated: false };
    await cluster.rotate();
    expect(cluster.said()).toMatch(/stays: a signer derives it/);
    expect(cluster.said()).toMatch(/end \(sets of registers: 1\)/);
    expect(cluster.context.host.answered).toMatchObject({ clusterShare: 'kept', endedApprovals: 1 });
  });

  test('signs nothing for recipients that a curator has put into the answer', async () => {
    cluster.world.forge = (bytes) =>
      new Uint8Array(
        Buffer.from(Buffer.from(bytes).toString('latin1').replace(cluster.own, FOREIGN), 'latin1'),
      );
    await expect(cluster.rotate()).rejects.toEqual(coded('nodes-not-verified'));
    expect(cluster.world.sent).toEqual([]);
  });

  test.each<[string, Partial<DiskSeal>]>([
    ['an agent of an earlier release', { nodeSeal: new Uint8Array() }],
    ['a short digest', { nodeSeal: new Uint8Array(31) }],
    ['a threshold above the number of recipients', { recoveryThreshold: 2 }],
    ['no threshold', { recoveryThreshold: 0 }],
    ['a malformed recipient', { recoveryRecipients: ['age1 x'] }],
  ])('signs nothing with %s', async (_, seal) => {
    Object.assign(cluster.world.seal, seal);
    await expect(cluster.rotate()).rejects.toEqual(coded('nodes-disk-not-rotatable'));
    expect(cluster.world.sent).toEqual([]);
  });

  test('signs nothing that nobody has confirmed', async () => {
    await expect(cluster.rotate({ yes: false })).rejects.toEqual(coded('nodes-rotation-not-confirmed'));
    expect(cluster.world.sent).toEqual([]);
  });
});
