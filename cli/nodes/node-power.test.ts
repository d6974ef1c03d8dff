import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import { DiskSealSchema } from '../../joinservice/curatorproto/gen/streams_pb.js';
import { evidenceConfiguration } from './fake-evidence.ts';
import { NodeHealth } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { runReboot, runShutdown } from './index.ts';
import { createStatefulCluster } from './removal/fake-stateful-cluster.ts';
import { reportedComponents } from './roles/fake-components.ts';

const RUNNING = 'a1'.repeat(32);
const NEXT_IMAGE = 'b2'.repeat(32);
const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 60_000 };
const options = { drains: true, drain, waitMs: 60_000, dryRun: false, yes: false };

let living: Awaited<ReturnType<typeof createStatefulCluster>>;
beforeEach(async () => {
  living = await createStatefulCluster();
});
afterEach(async () => {
  await living[Symbol.asyncDispose]();
});

const scheduling = (name: string) => living.cluster.state.kubernetes.find((each) => each.name === name);
const silence = (name: string): void => {
  const node = living.cluster.state.nodes.find((each) => each.name === name);
  if (node !== undefined) node.health = NodeHealth.TIMEOUT;
};

describe('runReboot()', () => {
  test('evicts the pods, waits for the next boot, and uncordons the node', async () => {
    const program = living.program(Infinity);
    await runReboot(program, 'n4', options);
    expect(program.host.codes).toEqual(['node-drain', 'node-power-reboot', 'node-power-uncordon']);
    expect(living.cluster.boots).toEqual({ n4: 1 });
    expect(living.cluster.state.pods).toEqual(['n3']);
    expect(scheduling('n4')).toMatchObject({ isCordoned: false });
  });

  test('waits for the next boot when the machine restarted before it answered the order', async () => {
    living.cluster.losesAnswers = true;
    await runReboot(living.program(Infinity), 'n4', options);
    expect(living.cluster.boots).toEqual({ n4: 1 });
  });

  test('leaves a node cordoned that an operator has cordoned', async () => {
    Object.assign(scheduling('n4') ?? {}, { isCordoned: true });
    await runReboot(living.program(Infinity), 'n4', options);
    expect(scheduling('n4')).toMatchObject({ isCordoned: true });
  });

  test('with --no-drain leaves the pods', async () => {
    await runReboot(living.program(Infinity), 'n4', { ...options, drains: false });
    expect([living.cluster.boots, living.cluster.state.pods]).toEqual([{ n4: 1 }, ['n3', 'n4']]);
  });

  test('waits until the control plane runs again, so that the next one may be restarted', async () => {
    const node = living.cluster.state.nodes.find(({ name }) => name === 'n3');
    if (node === undefined) throw new Error('there is n3');
    node.status.controlPlane = reportedComponents('connection refused');
    const force = { ...drain, force: true, deleteEmptyDirData: true };
    await expect(
      runReboot(living.program(Infinity), 'n3', { ...options, drain: force, yes: true }),
    ).rejects.toMatchObject({
      code: 'nodes-power-timeout',
      message: expect.stringContaining('its kube-apiserver is not ready: connection refused'),
    });
    // The same command again continues to wait, and does not restart the machine a second time.
    await expect(
      runReboot(living.program(Infinity), 'n3', { ...options, drain: force, yes: true }),
    ).rejects.toMatchObject({ code: 'nodes-power-timeout' });
    node.status.controlPlane = reportedComponents();
    await runReboot(living.program(Infinity), 'n3', { ...options, drain: force, yes: true });
    expect(living.cluster.boots).toEqual({ n3: 1 });
    expect(scheduling('n3')).toMatchObject({ isCordoned: false });
  });

  test('waits until Kubernetes shows the control plane as ready, so that the status is good when it ends', async () => {
    living.cluster.state.unreported = ['n3'];
    const force = { ...drain, force: true, deleteEmptyDirData: true };
    const reboot = () => runReboot(living.program(Infinity), 'n3', { ...options, drain: force, yes: true });
    await expect(reboot()).rejects.toMatchObject({
      code: 'nodes-power-timeout',
      message: expect.stringContaining('Kubernetes does not show the pod kube-apiserver-n3 as ready'),
    });
    expect(scheduling('n3')).toMatchObject({ isCordoned: true });
    living.cluster.state.unreported = [];
    await reboot();
    expect(living.cluster.boots).toEqual({ n3: 1 });
    expect(scheduling('n3')).toMatchObject({ isCordoned: false });
  });

  test('with --dry-run changes nothing', async () => {
    const program = living.program(Infinity);
    await runReboot(program, 'n4', { ...options, dryRun: true });
    expect(program.host.records).toContainEqual(
      expect.objectContaining({
        text: expect.stringMatching(/^Node n4 would be restarted\. Nothing was changed\./),
      }),
    );
    expect([living.cluster.boots, living.cluster.state.pods]).toEqual([{}, ['n3', 'n4']]);
  });

  test('needs to be confirmed when the disk of the node would stay locked', async () => {
    const program = living.program(Infinity);
    await program.ports.files.writeAtomic('/owner/cluster.yaml', evidenceConfiguration({ pcr4: NEXT_IMAGE }));
    const registers = { 4: Buffer.from(RUNNING, 'hex') };
    const reboot = (seal: object): Promise<void> => {
      living.cluster.seals = { n4: create(DiskSealSchema, { registers, ...seal }) };
      return runReboot(program, 'n4', { ...options, drains: false });
    };
    await expect(reboot({ opens: true })).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      message: expect.stringContaining(`not approved for the disk of n4 (pcr4 ${NEXT_IMAGE.slice(0, 16)}…)`),
    });
    const approved = [RUNNING, NEXT_IMAGE].map((each) => ({ registers: { 4: Buffer.from(each, 'hex') } }));
    await expect(reboot({ approved, opens: false })).rejects.toMatchObject({
      message: expect.stringContaining('n4 runs software that is not approved for its disk'),
    });
    expect(living.cluster.boots).toEqual({});
    await reboot({ approved, opens: true });
    expect(living.cluster.boots).toEqual({ n4: 1 });
  });

  test('refuses a control plane when another one does not respond', async () => {
    silence('n2');
    await expect(runReboot(living.program(Infinity), 'n3', options)).rejects.toMatchObject({
      code: 'nodes-change-unsafe',
      message: expect.stringContaining('etcd would lose its quorum'),
    });
    expect(living.cluster.boots).toEqual({});
  });

  test('refuses a node that does not respond', async () => {
    silence('n4');
    await expect(runReboot(living.program(Infinity), 'n4', options)).rejects.toMatchObject({
      code: 'nodes-change-unsafe',
    });
  });
});

describe('runShutdown()', () => {
  test('needs to be confirmed, and leaves the node cordoned', async () => {
    await expect(runShutdown(living.program(Infinity), 'n4', options)).rejects.toMatchObject({
      code: 'loss-not-confirmed',
    });
    expect(living.cluster.state.machines).toMatchObject({ n4: 'member' });
    await runShutdown(living.program(Infinity), 'n4', { ...options, yes: true });
    expect(living.cluster.state.machines).toMatchObject({ n4: 'off' });
    expect(scheduling('n4')).toMatchObject({ isCordoned: true });
  });

  test('ends when the machine starts again by itself', async () => {
    living.cluster.startsAgain = true;
    const program = living.program(Infinity);
    await runShutdown(program, 'n4', { ...options, yes: true });
    expect(program.host.answered).toEqual({ node: 'n4', off: false });
    expect(program.host.records).toContainEqual(
      expect.objectContaining({ text: expect.stringContaining('its machine has started again by itself') }),
    );
  });

  test('changes nothing for a node that does not respond', async () => {
    silence('n4');
    const program = living.program(Infinity);
    await runShutdown(program, 'n4', options);
    expect([program.host.answered, living.cluster.state.pods]).toEqual([
      { node: 'n4', off: false },
      ['n3', 'n4'],
    ]);
  });
});
