import { create } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from '@jest/globals';
import { put } from '../../../internal/etcd/index.ts';
import {
  CONFIGURATION_KEY,
  records,
  REMOVED_PREFIX,
  type RemovedRecord,
} from '../../../internal/records/index.ts';
import { as, mutation, TestCurators } from '../../curator/fake-curators.ts';
import { Curator as Contract, NodeState } from '../../curatorproto/gen/curator_pb.js';
import { at, AdmissionHarness, listing, applicant, EVIDENCE } from './fake-admissions.ts';
import type { JoinPolicy } from './decide-join.ts';

const never = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each[Symbol.asyncDispose]();
});

const EK = `tpm-ek:${'e'.repeat(64)}`;
const PROVED = { identity: EK, proof: 'endorsed', profile: 'measured' } as const;
const auto: Partial<JoinPolicy> = { policy: 'auto' };
const inventory: Partial<JoinPolicy> = {
  policy: 'inventory',
  inventory: [{ identity: EK, name: 'w-1', roles: ['worker'], labels: {} }],
};

/** A curator and the join service of the same control plane. */
async function createWorld(policy: Partial<JoinPolicy>) {
  const curators = await TestCurators.create();
  opened.push(curators);
  const { etcd, clock, owner, signer } = curators;
  const harness = new AdmissionHarness(policy, { etcd, clock, owner: signer });
  opened.push({ [Symbol.asyncDispose]: async () => harness[Symbol.dispose]() });
  const curator = curators.at(0);
  const { deleteNode, setNodeRoles, setNodeState } = Contract.method;
  const ask = (index: number, shown: object = PROVED) =>
    harness.admissions.decide(at(applicant(index, shown)), never);
  const join = async (index: number, shown: object = PROVED) => {
    await ask(index, shown);
    const { identity } = applicant(index, shown).machine;
    return harness.commits.commit(`node-${index}`, { ...EVIDENCE, identity }, never);
  };
  const remove = async (nodeId: string, documents: readonly Uint8Array[] = []) => {
    const roles = create(setNodeRoles.input, { nodeId, roles: [], mutation: mutation() });
    await curator.setNodeRoles(roles, as(owner));
    const state = NodeState.DECOMMISSIONED;
    await curator.setNodeState(
      create(setNodeState.input, { nodeId, state, mutation: mutation() }),
      as(owner),
    );
    const request = { nodeId, documents: [...documents], mutation: mutation() };
    await curator.deleteNode(create(deleteNode.input, request), as(owner));
  };
  const removed = async (): Promise<readonly RemovedRecord[]> =>
    (await etcd.list(REMOVED_PREFIX, { signal: never })).entries.map(({ key, value }) =>
      records.removed.decode(key, value),
    );
  const readmit = (removal: number, identity: string = EK) =>
    signer.sign('readmission', { identity, removal });
  const record = (document: Uint8Array) => signer.record(etcd, document);
  return { harness, signer, ask, join, remove, removed, readmit, record };
}

describe('a removed machine', () => {
  test.each([
    { name: 'inventory', policy: inventory },
    { name: 'auto', policy: auto },
    { name: 'approve', policy: {} },
  ])('is refused under the join policy $name, also when it has a new key', async ({ policy }) => {
    const world = await createWorld(auto);
    await world.join(1);
    await world.remove('node-1');
    world.harness.decree(policy);
    await expect(world.ask(2)).rejects.toEqual(coded('join-decommissioned'));
  });

  test('a removed machine is refused with its old key on any hardware', async () => {
    const world = await createWorld(auto);
    await world.join(1);
    await world.remove('node-1');
    const other = { ...PROVED, identity: `tpm-ek:${'f'.repeat(64)}` };
    await expect(world.ask(1, other)).rejects.toEqual(coded('join-decommissioned'));
  });

  test('a removed machine is refused even if an operator approved it before its removal', async () => {
    const world = await createWorld(auto);
    await world.join(1);
    // This call is refused, because one machine can have only one membership.
    await world.ask(2).catch(() => undefined);
    const { harness } = world;
    await world.remove('node-1');
    const key = records.join.key('node-2');
    const entry = await harness.etcd.get(key, { signal: never });
    const asked = records.join.decode(key, entry?.value ?? new Uint8Array());
    const decision = { name: 'x', roles: [], labels: {}, by: 'operator:o', timeMs: 0, expiresMs: 1e15 };
    const approved = records.join.encode({ ...asked, state: 'approved', decision });
    harness.etcd.commitNow({ when: [], then: [put(key, approved)] });
    await expect(world.ask(2)).rejects.toEqual(coded('join-decommissioned'));
    const committed = harness.commits.commit('node-2', { ...EVIDENCE, identity: EK }, never);
    await expect(committed).rejects.toEqual(coded('join-decommissioned'));
  });

  test('an admitted machine does not become a member if it is removed between the read and the write of the membership', async () => {
    const world = await createWorld(auto);
    await world.ask(1);
    const { harness } = world;
    const record = { version: 1 as const, identity: EK, removal: 1, nodeId: 'node-9', name: 'n' };
    const removal = records.removed.encode({ ...record, removedMs: 1, removedBy: 'operator:o' });
    harness.etcd.onCommit = () => {
      harness.etcd.onCommit = () => undefined;
      harness.etcd.commitNow({ when: [], then: [put(records.removed.key(EK), removal)] });
    };
    const committed = harness.commits.commit('node-1', { ...EVIDENCE, identity: EK }, never);
    await expect(committed).rejects.toEqual(coded('join-decommissioned'));
  });

  test('a removed machine joins after an owner readmitted it, and is refused again after its next removal', async () => {
    const world = await createWorld(auto);
    await world.join(1);
    await world.remove('node-1');
    await world.record(world.readmit(1));
    expect(await world.join(2)).toMatchObject({ nodeId: 'node-2', state: 'UP' });
    await world.remove('node-2');
    expect((await world.removed()).find(({ identity }) => identity === EK)).toMatchObject({ removal: 2 });
    await expect(world.ask(3)).rejects.toEqual(coded('join-decommissioned'));
    await world.record(world.readmit(2));
    expect(await world.ask(3)).toMatchObject({ kind: 'admitted' });
  });

  test('a member stays a member after its readmission expired', async () => {
    const world = await createWorld(auto);
    await world.join(1);
    await world.remove('node-1');
    await world.record(world.readmit(1));
    await world.join(2);
    await world.harness.clock.advance(48 * 60 * 60 * 1000);
    expect(await world.ask(2)).toMatchObject({ kind: 'admitted' });
  });

  test('a removed machine joins at once if an owner readmits it with the removal call (a reset)', async () => {
    const world = await createWorld(auto);
    await world.join(1);
    await world.remove('node-1', [world.readmit(1)]);
    expect(await world.ask(2)).toMatchObject({ kind: 'admitted' });
    // the reset has given the machine a new key; the old key stays refused
    await expect(world.ask(1)).rejects.toEqual(coded('join-decommissioned'));
  });

  const others = [
    { name: 'for another machine', made: (world: World) => world.readmit(1, `tpm-ek:${'f'.repeat(64)}`) },
    {
      name: 'for an earlier removal than the recorded one',
      made: (world: World) => world.readmit(1),
      removals: 2,
    },
    { name: 'for a removal that has not happened yet', made: (world: World) => world.readmit(2) },
    {
      name: 'that has expired',
      made: ({ signer }: World) =>
        signer.sign('readmission', { identity: EK, removal: 1 }, { issuedMs: 1, endsMs: 2 }),
    },
    {
      name: 'of another cluster',
      made: ({ signer }: World) =>
        signer.sign('readmission', { identity: EK, removal: 1 }, { clusterId: 'other' }),
    },
  ];
  test.each(others)(
    'a removed machine is refused with a readmission $name',
    async ({ made, removals = 1 }) => {
      const world = await createWorld(auto);
      for (let i = 1; i <= removals; i++) {
        if (i > 1) await world.record(world.readmit(i - 1));
        await world.join(i);
        await world.remove(`node-${i}`);
      }
      await world.record(made(world));
      await expect(world.ask(9)).rejects.toEqual(coded('join-decommissioned'));
    },
  );

  test('a removed machine is refused with a readmission that no owner signed', async () => {
    const world = await createWorld(auto);
    await world.join(1);
    await world.remove('node-1');
    const otherOwner = (await createWorld(auto)).signer;
    await world.record(otherOwner.sign('readmission', { identity: EK, removal: 1 }));
    await expect(world.ask(2)).rejects.toEqual(coded('join-decommissioned'));
  });

  test.each([
    {
      name: 'the same processor chip as a removed machine, if several virtual machines may share the chip',
      listed: false,
      want: 'admitted',
    },
    {
      name: 'the same processor chip as a removed machine, if the inventory lists the chip as one machine',
      listed: true,
      want: 'join-decommissioned',
    },
  ])('a machine with $name: $want', async ({ listed, want }) => {
    const identity = `snp-chip:${'c'.repeat(128)}`;
    const chip = { ...PROVED, identity };
    const entry = { identity, name: 'w-1', roles: ['worker' as const], labels: {} };
    const world = await createWorld(auto);
    await world.join(1, chip);
    const signed = [];
    if (listed) {
      // Removing the node does not delete the inventory entry of its chip: that needs an owner's signature.
      const { harness } = world;
      const attestation = { variants: ['machine-key'], firstContact: 'fingerprint' };
      const document = {
        version: 1,
        name: 'test',
        attestation,
        join: { policy: 'auto', inventory: [entry] },
      };
      const stored = { document: btoa(JSON.stringify(document)), updatedMs: 1, updatedBy: 'x' };
      const configuration = records.configuration.encode({ version: 1, ...stored });
      harness.etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, configuration)] });
      signed.push(world.readmit(1, identity));
    }
    await world.remove('node-1', signed);
    if (listed)
      await world.record(
        world.signer.sign('readmission', { identity, removal: 1 }, { issuedMs: 1, endsMs: 2 }),
      );
    const answer = world.ask(2, chip);
    if (want === 'admitted') expect(await answer).toMatchObject({ kind: want });
    else await expect(answer).rejects.toEqual(coded(want));
  });
});

type World = Awaited<ReturnType<typeof createWorld>>;

describe('a control plane', () => {
  const listed = {
    ...listing(1),
    inventory: [{ ...listing(1).inventory[0], roles: ['control-plane' as const] }],
  };
  const POLICY = { configurationSha256: 'ab'.repeat(32) };

  test('a control plane of the inventory is admitted after an owner has signed the configuration', async () => {
    const world = await createWorld(listed as Partial<JoinPolicy>);
    expect(await world.ask(1, {})).toMatchObject({
      kind: 'waiting',
      record: { code: 'join-awaiting-owner' },
    });
    await world.record(world.signer.sign('policy', { configurationSha256: 'cd'.repeat(32) }));
    expect(await world.ask(1, {})).toMatchObject({ kind: 'waiting' });
    await world.record(world.signer.sign('policy', POLICY));
    expect(await world.ask(1, {})).toMatchObject({ kind: 'admitted' });
  });

  test('an admitted control plane does not become a member if the signature of the owner has expired in the meantime', async () => {
    const world = await createWorld(listed as Partial<JoinPolicy>);
    const endsMs = world.harness.clock.nowMs() + 1_000;
    await world.record(world.signer.sign('policy', POLICY, { endsMs }));
    await world.ask(1, {});
    await world.harness.clock.advance(1_000);
    const { identity } = applicant(1).machine;
    const committed = world.harness.commits.commit('node-1', { ...EVIDENCE, identity }, never);
    await expect(committed).rejects.toEqual(coded('join-not-admitted'));
  });
});
