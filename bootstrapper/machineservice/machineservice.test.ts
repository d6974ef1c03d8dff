import { describe, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import { createClient, localUpgrade, RpcChannel } from '../../internal/rpc/index.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { superviseForTest } from '../../internal/testing/supervised.ts';
import { temporaryDirectory } from '../../internal/testing/host/temporary-directory.ts';
import { EnrolmentEvent_Stage as Stage, Machine } from '../../initproto/gen/machine_pb.js';
import type { EnrolmentStatus } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import type { JoinStatus } from '../joinclient/index.ts';
import type { KubernetesStatus, RoleSet } from '../roleserve/index.ts';
import { enrolmentEvent, type EnrolmentFacts } from './enrolment-event.ts';
import type { MachineServicePorts } from './machine-handlers.ts';
import { agentSocketRunnable } from './agent-socket.ts';

const membership = { clusterId: 'c', clusterName: 'blue', nodeName: 'w1', nodeId: 'node-1' } as Membership;
const facts: EnrolmentFacts = {
  enrolment: { state: 'New' },
  join: { kind: 'idle' },
  isRunning: false,
  roles: [],
  phases: [],
  fingerprint: 'sha256:1',
  nodeId: 'node-1',
  nowMs: 0,
};
const problem = { code: 'join-refused', message: 'no', fix: 'ask', exit: 'refused', timeMs: 0 };

describe('enrolmentEvent()', () => {
  const cases: { name: string; given: Partial<EnrolmentFacts>; want: object }[] = [
    { name: 'a machine without endpoints', given: {}, want: { stage: Stage.IDLE } },
    {
      name: 'a machine whose endpoints do not respond',
      given: { join: { kind: 'asking', endpoints: ['a:1'], sinceMs: 0, lastError: problem } },
      want: { stage: Stage.ASKING, endpoints: ['a:1'], problem: { code: 'join-refused', retryable: true } },
    },
    {
      name: 'a machine that was refused permanently',
      given: { join: { kind: 'refused', endpoint: 'a:1', problem } },
      want: { stage: Stage.REFUSED, problem: { code: 'join-refused', exit: 'refused', retryable: false } },
    },
    {
      name: 'a member whose workloads start',
      given: { enrolment: { state: 'Running', membership }, roles: ['KubernetesWorker'] },
      want: { stage: Stage.MEMBER, nodeName: 'w1', roles: ['KubernetesWorker'] },
    },
    {
      name: 'a member whose workloads run',
      given: { enrolment: { state: 'Running', membership }, isRunning: true },
      want: { stage: Stage.RUNNING },
    },
  ];
  test.each(cases)('reports the stage of $name', ({ given, want }) => {
    expect(enrolmentEvent({ ...facts, ...given })).toMatchObject(want);
  });
});

test('root sets the join endpoints of the machine over a Unix socket and watches its enrolment', async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, 'agent.sock');
  const enrolment = new EventValue<EnrolmentStatus<Membership>>();
  enrolment.set({ state: 'New' });
  const status = new EventValue<JoinStatus>();
  status.set({ kind: 'idle' });
  const length = new EventValue<number>();
  length.set(0);
  const kubernetesStatus = new EventValue<KubernetesStatus | undefined>();
  kubernetesStatus.set(undefined);
  const localRoles = new EventValue<RoleSet | undefined>();
  localRoles.set(undefined);
  const told: string[][] = [];
  let hurries = 0;
  const ordered: [string, boolean][] = [];
  const member = { endpoint: 'a:2379', raftIndex: 7n, hasLeader: false };
  const recovery = {
    survey: async () => ({
      ...{ clusterName: 'blue', nodeName: 'cp1', refusals: [], damage: ['all of it'], losses: ['much'] },
      surveys: {
        state: {
          ...{ epoch: 1, own: member },
          others: [{ endpoint: 'b:2379', raftIndex: undefined, hasLeader: false }],
        },
      },
      lastFailure: '',
      isOrdered: false,
    }),
    order: async (clusterName: string, skipChecks: boolean) => void ordered.push([clusterName, skipChecks]),
  } as unknown as MachineServicePorts['recovery']; // one etcd cluster with the shown fields is enough here
  const ports = {
    ...{
      enrolment: { status: enrolment },
      reads: { kubernetesStatus, localRoles },
      fingerprint: 'sha256:1',
      nodeId: 'n',
    },
    joinClient: { status, retryNow: () => void hurries++ },
    operatorEndpoints: {
      get list() {
        return told.at(-1) ?? [];
      },
      add: (endpoints: readonly string[]) => Promise.resolve(void told.push([...endpoints])),
    },
    phases: { length, after: () => [] },
    recovery,
    clock: new SystemClock(),
    files: new DiskFiles(),
  };
  await using tree = superviseForTest(agentSocketRunnable(path, ports));
  while (tree.at('root').state !== 'healthy') await new Promise((resolve) => setImmediate(resolve));
  using channel = new RpcChannel({ endpoint: `unix:${path}`, upgrade: localUpgrade });
  const machine = createClient(Machine, channel);
  const life = new AbortController();
  const call = { signal: life.signal };
  expect((await machine.direct({ endpoints: ['10.0.0.1'] }, call)).endpoints).toEqual(['10.0.0.1:9090']);
  expect(hurries).toBe(1);
  await expect(machine.direct({ endpoints: ['a b'] }, call)).rejects.toMatchObject({
    code: 'machineservice-endpoint-invalid',
  });
  const stages: Stage[] = [];
  for await (const event of machine.watchEnrolment({}, call)) {
    stages.push(event.stage);
    if (event.stage === Stage.IDLE) enrolment.set({ state: 'Running', membership });
    else break;
  }
  expect(stages).toEqual([Stage.IDLE, Stage.MEMBER]);
  await machine.direct({ endpoints: ['10.0.0.1'] }, call);
  await expect(machine.direct({ endpoints: ['10.0.0.9'] }, call)).rejects.toMatchObject({
    code: 'machineservice-is-member',
  });
  const { etcd, damage, losses } = await machine.surveyQuorum({}, call);
  expect(etcd).toMatchObject([{ name: 'state', epoch: 1n, own: { raftIndex: 7n }, others: [{}] }]);
  expect([etcd[0]?.others[0]?.raftIndex, damage, losses]).toEqual([undefined, ['all of it'], ['much']]);
  await machine.recoverQuorum({ clusterName: 'blue', skipChecks: true }, call);
  expect(ordered).toEqual([['blue', true]]);
  life.abort();
});
