import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { bindingOfDiskSeal } from '../../../internal/attestation/index.ts';
import { generateEd25519Key } from '../../../internal/crypto/index.ts';
import {
  approvalKeyOfOwner,
  parseApproval,
  parseApprovalKey,
  type VerifiedApproval,
} from '../../../internal/statedisk/index.ts';
import { DiskSealSchema, type DiskSeal } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { contextOf, createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { layoutOf, readOwnerKey } from '../../workspace/index.ts';
import { createMachine, evidenceConfiguration, evidenceFor } from '../fake-evidence.ts';
import { runApproveDisk } from './approve-disk.ts';

const ZERO = new Uint8Array(32);
const NEXT = 'b4'.repeat(32);
const options = { registers: [] as readonly string[], dryRun: false, yes: true };

/** A node with a state disk that is sealed to PCR 4 and 7, and a curator that may change what it says. */
async function createWorld() {
  const { key, record } = createMachine('a');
  const seal: Partial<DiskSeal> = {
    uuid: 'e69a2e66-2bc8-4695-b852-75f129bb9e54',
    seals: [1, 2].map((byte) => Uint8Array.of(0, 0x0b, ...new Uint8Array(32).fill(byte))),
    generation: 5n,
    registers: { 4: ZERO, 7: ZERO },
    opens: true,
  };
  const world = {
    seal,
    sent: [] as Uint8Array[],
    forge: (bytes: Uint8Array): Uint8Array => bytes,
  };
  const encoded = (): Uint8Array => toBinary(DiskSealSchema, create(DiskSealSchema, world.seal as DiskSeal));
  const harness = await createCuratorHarness(
    { getNode: async () => ({ node: record }) },
    {},
    {
      getDiskSeal: async ({ nonce }: { readonly nonce: Uint8Array }) => {
        const { clusterId } = harness;
        const binding = bindingOfDiskSeal({ clusterId, nodeId: record.nodeId, nonce }, encoded());
        const { variant, evidence } = evidenceFor(key, { clusterId, binding });
        return { nodeId: record.nodeId, report: { seal: world.forge(encoded()), variant, evidence } };
      },
      approveDisk: async ({ approval }) => {
        world.sent.push(approval?.approval ?? new Uint8Array());
        return {};
      },
    },
  );
  await harness.files.writeAtomic('/owner/cluster.yaml', evidenceConfiguration());
  const file = { registers: { pcr4: { expected: NEXT }, pcr9: { expected: NEXT } } };
  await harness.files.writeAtomic('/owner/reference-values.json', JSON.stringify(file));
  const context = contextOf(harness.files, '/owner');
  const { keyPem } = await readOwnerKey(context, layoutOf('/owner'));
  const point = parseApprovalKey(approvalKeyOfOwner(keyPem).publicKey) ?? ZERO;
  return Object.assign(harness, {
    world,
    context,
    approve: (changed: Partial<typeof options> = {}) =>
      runApproveDisk(context, 'n2', { ...options, ...changed }),
    approval: (): VerifiedApproval => parseApproval(world.sent[0] ?? ZERO, point),
  });
}

let cluster: Awaited<ReturnType<typeof createWorld>>;
beforeEach(async () => void (cluster = await createWorld()));
afterEach(async () => cluster[Symbol.asyncDispose]());

const coded = (code: string): unknown => expect.objectContaining({ code });

describe('runApproveDisk()', () => {
  test('signs what runs now and what the files name, for the seal and the next generation of this disk', async () => {
    await cluster.approve({ registers: ['/owner/reference-values.json'] });
    const { uuid, generation, seals, software } = cluster.approval();
    expect({ uuid, generation, seals }).toEqual({
      uuid: cluster.world.seal.uuid,
      generation: 6n,
      seals: cluster.world.seal.seals,
    });
    // The file has no PCR 7: it stays. The disk is not sealed to PCR 9.
    expect(software).toEqual([
      new Map([
        [4, ZERO],
        [7, ZERO],
      ]),
      new Map([
        [4, new Uint8Array(Buffer.from(NEXT, 'hex'))],
        [7, ZERO],
      ]),
    ]);
    expect(cluster.context.host.answered).toMatchObject({
      ...{ node: 'n2', ended: [], clusterShare: 'machine' },
    });
  });

  test('without files approves only what runs now, and names what ends', async () => {
    cluster.world.seal.approved = [{ registers: { 4: ZERO, 7: new Uint8Array(32).fill(1) } }] as never;
    await cluster.approve();
    expect(cluster.approval().software).toHaveLength(1);
    expect(cluster.context.host.answered).toMatchObject({ ended: [{ pcr7: '01'.repeat(32) }] });
  });

  test('signs the Name of the node share alone for a worker whose cluster share is with the signers', async () => {
    cluster.world.seal.seals = cluster.world.seal.seals?.slice(0, 1) ?? [];
    await cluster.approve();
    expect(cluster.approval().seals).toEqual(cluster.world.seal.seals);
    expect(cluster.context.host.answered).toMatchObject({ clusterShare: 'signer' });
  });

  test('signs nothing for an answer that a curator has changed', async () => {
    cluster.world.forge = (bytes) => {
      const forged = Buffer.from(bytes);
      const at = forged.indexOf(Buffer.of(0, 0x0b, 1)) + 10; // in the Name of the sealed node share
      forged.writeUInt8(forged.readUInt8(at) ^ 1, at);
      return forged;
    };
    await expect(cluster.approve()).rejects.toEqual(coded('nodes-not-verified'));
    expect(cluster.world.sent).toEqual([]);
  });

  test.each<[string, Partial<DiskSeal>, Partial<typeof options>, string]>([
    [
      'registers that are not the quoted ones',
      { registers: { 4: new Uint8Array(32).fill(9) } },
      {},
      'nodes-not-verified',
    ],
    ['a disk that nobody can approve registers for', { seals: [] }, {}, 'nodes-disk-not-approvable'],
    ['three sealed shares', { seals: [1, 2, 3].map(() => new Uint8Array(34)) }, {}, 'nodes-not-verified'],
    ['a sealed share with a short Name', { seals: [new Uint8Array(33)] }, {}, 'nodes-not-verified'],
    ['a register of another length', { registers: { 4: new Uint8Array(31) } }, {}, 'nodes-not-verified'],
    ['no confirmation', {}, { yes: false }, 'nodes-approval-not-confirmed'],
    ['a missing file', {}, { registers: ['/nofile'] }, 'nodes-register-file'],
    [
      'a file without registers of the disk',
      { registers: { 7: ZERO } },
      { registers: ['/owner/reference-values.json'] },
      'nodes-register-file',
    ],
  ])('signs nothing with %s', async (_, seal, changed, code) => {
    Object.assign(cluster.world.seal, seal);
    await expect(cluster.approve(changed)).rejects.toEqual(coded(code));
    expect(cluster.world.sent).toEqual([]);
  });

  test('with --dry-run signs nothing', async () => {
    await cluster.approve({ registers: ['/owner/reference-values.json'], dryRun: true });
    expect(cluster.world.sent).toEqual([]);
    expect(cluster.context.host.answered).toMatchObject({ dryRun: true, software: [{}, {}] });
  });

  test('an approval counts only with the key of the owner', async () => {
    await cluster.approve();
    const other = parseApprovalKey(approvalKeyOfOwner(generateEd25519Key()).publicKey) ?? ZERO;
    expect(() => parseApproval(cluster.world.sent[0] ?? ZERO, other)).toThrow(
      expect.objectContaining({ code: 'statedisk-approval-invalid' }),
    );
  });
});
