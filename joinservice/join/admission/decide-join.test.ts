import { describe, expect, test } from '@jest/globals';
import type { JoinRecord, NodeRecord } from '../../../internal/records/index.ts';
import { MACHINE_CHECKS } from '../../joinproto/index.ts';
import { decideJoin, type JudgedApplicant, type JoinPolicy, type ApplicantRecords } from './decide-join.ts';

const identity = `tpm-ek:${'a'.repeat(64)}`;
const applicant: JudgedApplicant = {
  nodeId: 'node-1',
  machine: {
    identity,
    proof: 'endorsed',
    variant: 'tpm',
    profile: 'identity',
    akName: '000b',
    evidenceDigest: 'd'.repeat(64),
    policyVersion: 'p',
  },
  claimed: {
    hostname: 'Host.example',
    address: '192.0.2.1',
    name: '',
    roles: [],
    agentVersion: '',
    clockOffsetMs: 0,
  },
  facts: [],
};
const GPU = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' as const };
const nobody: ApplicantRecords = {
  node: undefined,
  machineHolder: undefined,
  join: undefined,
  nameHolder: () => undefined,
  whyExcluded: undefined,
  missingSignatures: { inventory: 'not signed', approval: 'not granted' },
};
const approve: JoinPolicy = { policy: 'approve', inventory: [], version: 'v1' };
const inventory: JoinPolicy = {
  policy: 'inventory',
  inventory: [{ identity, name: 'w-1', roles: ['worker'], labels: { a: 'b' }, taints: [GPU] }],
  version: 'v1',
};
const controlPlane: JoinPolicy = {
  ...inventory,
  inventory: [{ identity, name: 'c-1', roles: ['control-plane'], labels: {} }],
};
const auto: JoinPolicy = { ...approve, policy: 'auto' };
const node = (over: Partial<NodeRecord> = {}): NodeRecord => ({
  version: 1,
  nodeId: 'node-1',
  name: 'n',
  pubKey: '',
  state: 'UP',
  roles: [],
  labels: {},
  createdMs: 1,
  ...over,
});
const decision = { name: 'x', roles: [], labels: {}, by: 'operator:o', timeMs: 1, expiresMs: 100 };
const join = (over: Partial<JoinRecord>): JoinRecord => ({
  version: 1,
  nodeId: 'node-1',
  pubKey: '',
  state: 'pending',
  machine: applicant.machine,
  claimed: applicant.claimed,
  code: '',
  message: '',
  firstSeenMs: 1,
  lastSeenMs: 1,
  attempts: 1,
  ...over,
});
const measured = { ...applicant.machine, profile: 'measured' as const };
const checked = (outcome: 'pass' | 'fail') => ({
  facts: [
    {
      ...{ side: 'machine' as const, name: MACHINE_CHECKS, outcome, expected: 'all passed', timeMs: 1 },
      ...{ actual: 'swap is on', fix: 'swapoff', code: 'preflight-swap' },
    },
  ],
});
const offBy = (ms: number) => ({ claimed: { ...applicant.claimed, clockOffsetMs: ms } });

interface Case {
  readonly name: string;
  readonly asks?: Partial<JudgedApplicant>;
  readonly onRecord?: Partial<ApplicantRecords>;
  readonly policy: JoinPolicy;
  readonly nowMs?: number;
  readonly want: unknown;
}

describe('decideJoin()', () => {
  const cases: readonly Case[] = [
    {
      name: 'under the policy approve, a machine waits for the decision of an operator',
      policy: approve,
      want: { kind: 'wait', code: 'join-awaiting-approval' },
    },
    {
      name: 'the inventory admits a listed machine with the listed name, roles, labels and taints',
      policy: inventory,
      want: {
        kind: 'admit',
        assignment: {
          name: 'w-1',
          roles: ['KubernetesWorker'],
          labels: { a: 'b' },
          taints: [GPU],
          decidedBy: 'policy:v1',
        },
      },
    },
    {
      name: 'the inventory admits a listed machine also under the policy approve',
      policy: { ...inventory, policy: 'approve' },
      want: { kind: 'admit', assignment: { name: 'w-1' } },
    },
    {
      name: 'the inventory policy refuses a machine that is not listed',
      policy: { ...inventory, inventory: [] },
      want: { kind: 'refuse', code: 'join-unknown-machine' },
    },
    {
      name: 'the policy auto admits measured machines as workers',
      asks: { machine: measured },
      policy: auto,
      want: { kind: 'admit', assignment: { name: 'host', roles: ['KubernetesWorker'] } },
    },
    {
      name: 'the policy auto makes operators decide about machines without measurements',
      policy: auto,
      want: { kind: 'wait' },
    },
    {
      name: 'the policy auto refuses measured machines without endorsed hardware',
      asks: { machine: { ...measured, proof: 'unproved' } },
      policy: auto,
      want: { kind: 'refuse', code: 'join-identity-unproved' },
    },
    {
      name: 'a machine that requests a role beyond the policy is refused',
      asks: { machine: measured, claimed: { ...applicant.claimed, roles: ['ConsensusMember'] } },
      policy: auto,
      want: { kind: 'refuse', code: 'join-role-denied' },
    },
    {
      name: 'a machine does not get the name of the API server by requesting it',
      asks: {
        machine: measured,
        claimed: { ...applicant.claimed, name: 'kubernetes', hostname: 'localhost' },
      },
      policy: auto,
      want: { kind: 'admit', assignment: { name: applicant.nodeId } },
    },
    {
      name: 'a machine does not get the name of the API server from an approval in the records',
      onRecord: { join: join({ state: 'approved', decision: { ...decision, name: 'kubernetes' } }) },
      policy: approve,
      want: { kind: 'refuse', code: 'join-name-invalid' },
    },
    {
      name: 'a machine does not get a name that another node has',
      onRecord: { nameHolder: () => 'node-2' },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-name-taken' },
    },
    {
      name: 'an operator’s approval takes precedence over the inventory',
      onRecord: { join: join({ state: 'approved', decision }) },
      policy: { ...inventory, inventory: [] },
      want: { kind: 'admit', assignment: { name: 'x', decidedBy: 'operator:o' } },
    },
    {
      name: 'an expired approval of an operator is ignored',
      onRecord: { join: join({ state: 'approved', decision }) },
      nowMs: 100,
      policy: approve,
      want: { kind: 'wait' },
    },
    {
      name: 'an operator’s refusal takes precedence over approval and inventory',
      onRecord: { join: join({ state: 'refused', decision }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-refused' },
    },
    {
      name: 'a machine that is already a member is recognized',
      onRecord: { node: node() },
      policy: approve,
      want: { kind: 'member' },
    },
    {
      name: 'a machine with a decommissioned key is refused',
      onRecord: { node: node({ state: 'DECOMMISSIONED' }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-decommissioned' },
    },
    {
      name: 'decommissioned hardware is refused under a new key',
      onRecord: { machineHolder: node({ nodeId: 'node-2', state: 'DECOMMISSIONED' }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-decommissioned' },
    },
    {
      name: 'a removed machine is refused under every policy',
      onRecord: { whyExcluded: 'it was removed as node n' },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-decommissioned', why: 'it was removed as node n' },
    },
    {
      name: 'a removed machine is refused even if an operator approved it',
      onRecord: { whyExcluded: 'it was removed', join: join({ state: 'approved', decision }) },
      policy: approve,
      want: { kind: 'refuse', code: 'join-decommissioned' },
    },
    {
      name: 'a member whose readmission expired stays a member',
      onRecord: { whyExcluded: 'its readmission ended', node: node() },
      policy: inventory,
      want: { kind: 'member' },
    },
    {
      name: 'the inventory assigns no control-plane roles if no owner signed it',
      policy: controlPlane,
      want: { kind: 'wait', code: 'join-awaiting-owner', why: 'not signed' },
    },
    {
      name: 'the inventory assigns control-plane roles if an owner signed it',
      onRecord: { missingSignatures: { inventory: undefined, approval: 'not granted' } },
      policy: controlPlane,
      want: { kind: 'admit', assignment: { roles: ['ConsensusMember', 'KubernetesController'] } },
    },
    {
      name: 'an approval assigns no control-plane roles if no owner granted them',
      onRecord: {
        join: join({ state: 'approved', decision: { ...decision, roles: ['ConsensusMember'] } }),
        missingSignatures: { inventory: undefined, approval: 'not granted' },
      },
      policy: approve,
      want: { kind: 'wait', code: 'join-awaiting-owner', why: 'not granted' },
    },
    {
      name: 'an approval assigns control-plane roles if an owner granted them',
      onRecord: {
        join: join({ state: 'approved', decision: { ...decision, roles: ['ConsensusMember'] } }),
        missingSignatures: { inventory: 'not signed', approval: undefined },
      },
      policy: approve,
      want: { kind: 'admit', assignment: { roles: ['ConsensusMember'] } },
    },
    {
      name: 'a second membership of one machine is refused',
      onRecord: { machineHolder: node({ nodeId: 'node-2' }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-identity-taken' },
    },
    {
      name: 'an approved key on other hardware is refused',
      onRecord: {
        join: join({ state: 'approved', decision, machine: { ...applicant.machine, identity: 'other' } }),
      },
      policy: approve,
      want: { kind: 'refuse', code: 'join-identity-changed' },
    },
    {
      name: 'a clock that is off by five minutes is accepted',
      asks: offBy(-300_000),
      policy: inventory,
      want: { kind: 'admit' },
    },
    {
      name: 'a clock that is off by more than five minutes is refused',
      asks: offBy(300_001),
      policy: inventory,
      want: { kind: 'refuse', code: 'join-clock-off', why: 'the clock of the machine is off by 300 s' },
    },
    {
      name: 'a machine whose own checks fail is refused, also if an operator approved it',
      asks: checked('fail'),
      onRecord: { join: join({ state: 'approved', decision }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-machine-unfit', why: 'preflight-swap: swap is on' },
    },
    {
      name: 'a machine whose own checks pass is admitted',
      asks: checked('pass'),
      policy: inventory,
      want: { kind: 'admit' },
    },
    {
      name: 'a member stays a member although it reports a failed check',
      asks: checked('fail'),
      onRecord: { node: node() },
      policy: approve,
      want: { kind: 'member' },
    },
  ];
  test.each(cases)('$name', ({ asks, onRecord, policy, nowMs = 50, want }) => {
    expect(
      decideJoin({ ...applicant, ...asks }, { ...nobody, ...onRecord }, { policy, nowMs }),
    ).toMatchObject(want as object);
  });
});
