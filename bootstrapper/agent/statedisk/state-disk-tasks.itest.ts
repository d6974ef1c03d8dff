import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { create, fromBinary } from '@bufbuild/protobuf';
import {
  diskRotationStatement,
  ed25519PubKeyFrom,
  generateEd25519Key,
  signEd25519,
} from '../../../internal/crypto/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { currentValue, EventValue } from '../../../internal/event/index.ts';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { DiskFiles, DiskStreams } from '../../../internal/file/index.ts';
import { createLogger } from '../../../internal/logging/index.ts';
import { approvalKeyOfOwner, signApproval } from '../../../internal/statedisk/index.ts';
import { createSwtpmFactory, type Swtpm, type SwtpmFactory } from '../../../internal/testing/index.ts';
import type { Tpm } from '../../../internal/tpm/index.ts';
import {
  DiskRotationReportSchema,
  DiskRotationTaskSchema,
  DiskSealReportSchema,
  DiskSealSchema,
} from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { FakeKernel } from '../../disk/fake-kernel.ts';
import { DiskQueue, openStateDisk, provisionedDisk } from '../../disk/index.ts';
import { DiskKeys } from './rotation-order.ts';
import { stateDiskTasks } from './state-disk-tasks.ts';

const clock = new SystemClock();
const { signal } = new AbortController();
const key = approvalKeyOfOwner(generateEd25519Key());
const member = { clusterId: 'c0ffee', nodeId: 'node-1' };
const nonce = new Uint8Array(32).fill(4);
const ownerPem = generateEd25519Key();
const pubKeyOf = (pem: typeof ownerPem): Uint8Array => ed25519PubKeyFrom(pem) ?? new Uint8Array();
const OWNER_KEY = Buffer.from(pubKeyOf(ownerPem)).toString('base64');
const real = {
  commands: new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' }),
  files: new DiskFiles(),
  streams: new DiskStreams(),
};

let directory: string;
let factory: SwtpmFactory;
let swtpm: Swtpm;
let tpm: Tpm;
beforeEach(async () => {
  directory = await mkdtemp('/dev/shm/cluster-disk-tasks-');
  factory = await createSwtpmFactory();
  swtpm = await factory.start();
  tpm = swtpm.open();
}, 60_000);
afterEach(async () => {
  await tpm[Symbol.asyncDispose]();
  for (const each of [swtpm, factory]) await each[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** The tasks of a machine, and the request that its evidence was made for. */
function machine(stateDisk: unknown, diskKeys?: DiskKeys) {
  const orders = {
    recovery: { ordered: new EventValue<boolean>() },
    reset: { ordered: new EventValue<boolean>() },
  };
  const queue = new DiskQueue();
  const bound: { request?: unknown; seal?: Uint8Array } = {};
  const evidence = {
    variant: 'tpm',
    forDiskSeal: async (request: unknown, seal: Uint8Array) => {
      Object.assign(bound, { request, seal });
      return Promise.resolve(Buffer.from('evidence'));
    },
  };
  const log = createLogger({ path: 'agent', nowMs: () => 0, sink: () => undefined });
  const parts = {
    ...{ ...real, tpm, log, clock, evidence, provisioning: { stateDisk, ownerKeys: [OWNER_KEY] }, signal },
    diskShare: { queue },
    ...{ diskKeys, recovery: orders.recovery, resetOrders: orders.reset },
  };
  return { tasks: stateDiskTasks(parts as never, member), bound, log, orders };
}

describe('stateDiskTasks()', () => {
  test('describe the disk with evidence for the description, and take what an owner signs for it', async () => {
    const device = join(directory, 'disk');
    await writeFile(device, '');
    await truncate(device, 64 * 2 ** 20);
    const stateDisk = {
      ...{ device, pcrs: [7, 11], integrity: false, approvalKey: key.publicKey },
      recoveryRecipients: ['age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0'] as [string],
      recoveryThreshold: 1,
    };
    const { tasks, bound, log } = machine(stateDisk);
    const { commands, files, streams } = new FakeKernel(real);
    const settings = { ...provisionedDisk(stateDisk), memory: join(directory, 'memory'), directories: [] };
    await openStateDisk(
      { commands, files, streams, tpm, log },
      { ...settings, permit: join(directory, 'permit') },
      signal,
    );
    const describeDisk = async () => {
      const report = fromBinary(DiskSealReportSchema, await tasks.describe(nonce, signal));
      expect(bound).toEqual({ request: { ...member, nonce }, seal: report.seal });
      expect(Buffer.from(report.evidence).toString()).toBe('evidence');
      return fromBinary(DiskSealSchema, report.seal);
    };
    const { uuid, seals, generation, registers, approved, opens } = await describeDisk();
    expect([approved, opens, Object.keys(registers)]).toEqual([[], true, ['7', '11']]);
    const [node = nonce, cluster = nonce] = seals;
    const running = new Map(Object.entries(registers).map(([pcr, value]) => [Number(pcr), value]));
    const next = new Map([...running, [11, new Uint8Array(32).fill(1)]]);
    const approval = signApproval(
      { uuid, generation: generation + 1n, seals: [node, cluster], software: [running, next] },
      key.privateKey,
    );
    // The second one finds the approval in the record.
    await Promise.all([tasks.approve(approval), tasks.approve(approval)]);
    const after = await describeDisk();
    expect([after.generation, after.approved.length, after.opens]).toEqual([generation + 1n, 2, true]);
    expect(after.approved[1]?.registers[11]).toEqual(new Uint8Array(32).fill(1));
  }, 120_000);

  test('replace the keys of the disk for an owner who signs what the description says, and for nobody else', async () => {
    const device = join(directory, 'disk');
    await writeFile(device, '');
    await truncate(device, 64 * 2 ** 20);
    const recipient = 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0';
    const stateDisk = {
      ...{ device, pcrs: [7, 11], integrity: false },
      ...{ recoveryRecipients: [recipient] as [string], recoveryThreshold: 1 },
    };
    const { commands, files, streams } = new FakeKernel(real);
    const settings = { ...provisionedDisk(stateDisk), memory: join(directory, 'memory'), directories: [] };
    const log = createLogger({ path: 'agent', nowMs: () => 0, sink: () => undefined });
    const ports = { commands, files, streams, tpm, log };
    await openStateDisk(ports, { ...settings, permit: join(directory, 'permit') }, signal);
    const askShare = (): Promise<never> => Promise.reject(new Error('nobody'));
    const keys = new DiskKeys({ ports, settings, askShare, queue: new DiskQueue() });
    const { tasks, orders } = machine(stateDisk, keys);
    const ask = (...all: Parameters<typeof tasks.describe>) => tasks['describe'](...all);
    const described = async () => {
      const { seal } = fromBinary(DiskSealReportSchema, await ask(nonce, signal));
      return fromBinary(DiskSealSchema, seal);
    };
    const { uuid, nodeSeal, recoveryRecipients, recoveryThreshold, keepsClusterShare } = await described();
    expect([recoveryRecipients, recoveryThreshold, keepsClusterShare]).toEqual([[recipient], 1, true]);
    const expiresMs = BigInt(clock.nowMs() + 600_000);
    const signed = (by: typeof ownerPem) => {
      const content = { uuid, seal: nodeSeal, recipients: recoveryRecipients, threshold: recoveryThreshold };
      const signature = signEd25519(by, diskRotationStatement({ ...member, ...content, expiresMs }));
      const pair = { ownerPubKey: pubKeyOf(by), signature, vouchers: [] };
      return create(DiskRotationTaskSchema, {
        ...pair,
        ...{ uuid, nodeSeal, recoveryRecipients, recoveryThreshold, expiresMs },
      });
    };
    await expect(tasks.rotate(signed(generateEd25519Key()))).rejects.toMatchObject({
      code: 'disk-rotation-unauthorized',
    });
    for (const each of ['recovery', 'reset'] as const) {
      orders[each].ordered.set(true);
      await expect(tasks.rotate(signed(ownerPem))).rejects.toMatchObject({ code: 'disk-rotation-postponed' });
      orders[each].ordered.set(false);
    }
    expect(currentValue(keys.rotated)).toBe(false);
    const report = fromBinary(DiskRotationReportSchema, await tasks.rotate(signed(ownerPem)));
    expect(report).toMatchObject({ isClusterShareNew: true, endedApprovals: 0, isRepeated: false });
    expect(currentValue(keys.rotated)).toBe(true);
    expect((await described()).nodeSeal).not.toEqual(nodeSeal);
    expect(fromBinary(DiskRotationReportSchema, await tasks.rotate(signed(ownerPem))).isRepeated).toBe(true);
  }, 240_000);

  test('refuse on a machine without a state disk', async () => {
    const { tasks } = machine(undefined);
    const refused = { code: 'disk-not-provisioned' };
    await expect(tasks.rotate(create(DiskRotationTaskSchema))).rejects.toMatchObject(refused);
    await expect(tasks.describe(nonce, signal)).rejects.toMatchObject(refused);
    await expect(tasks.approve(new Uint8Array())).rejects.toMatchObject(refused);
  });
});
