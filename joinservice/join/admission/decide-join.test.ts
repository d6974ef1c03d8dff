import { describe, expect, test } from '@jest/globals';
import type { JoinRecord, NodeRecord } from '../../../internal/records/index.ts';
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
};
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
  inventory: [{ identity, name: 'w-1', roles: ['worker'], labels: { a: 'b' } }],
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
      name: 'waits for an operator',
      policy: approve,
      want: { kind: 'wait', code: 'join-awaiting-approval' },
    },
    {
      name: 'admits whom the inventory names, as it names them',
      policy: inventory,
      want: {
        kind: 'admit',
        assignment: { name: 'w-1', roles: ['KubernetesWorker'], labels: { a: 'b' }, decidedBy: 'policy:v1' },
      },
    },
    {
      name: 'lets the inventory count under approval too',
      policy: { ...inventory, policy: 'approve' },
      want: { kind: 'admit', assignment: { name: 'w-1' } },
    },
    {
      name: 'refuses whom the inventory does not name',
      policy: { ...inventory, inventory: [] },
      want: { kind: 'refuse', code: 'join-unknown-machine' },
    },
    {
      name: 'admits measured machines by themselves, as workers',
      asks: { machine: measured },
      policy: auto,
      want: { kind: 'admit', assignment: { name: 'host', roles: ['KubernetesWorker'] } },
    },
    { name: 'has people decide about what is not measured', policy: auto, want: { kind: 'wait' } },
    {
      name: 'refuses measured machines that nobody vouches for',
      asks: { machine: { ...measured, proof: 'unproved' } },
      policy: auto,
      want: { kind: 'refuse', code: 'join-identity-unproved' },
    },
    {
      name: 'refuses a role beyond the policy’s',
      asks: { machine: measured, claimed: { ...applicant.claimed, roles: ['ConsensusMember'] } },
      policy: auto,
      want: { kind: 'refuse', code: 'join-role-denied' },
    },
    {
      name: 'gives nobody the API server’s name for a wish',
      asks: {
        machine: measured,
        claimed: { ...applicant.claimed, name: 'kubernetes', hostname: 'localhost' },
      },
      policy: auto,
      want: { kind: 'admit', assignment: { name: applicant.nodeId } },
    },
    {
      name: 'nor because somebody wrote it',
      onRecord: { join: join({ state: 'approved', decision: { ...decision, name: 'kubernetes' } }) },
      policy: approve,
      want: { kind: 'refuse', code: 'join-name-invalid' },
    },
    {
      name: 'refuses a taken name',
      onRecord: { nameHolder: () => 'node-2' },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-name-taken' },
    },
    {
      name: 'takes an operator’s yes over the inventory',
      onRecord: { join: join({ state: 'approved', decision }) },
      policy: { ...inventory, inventory: [] },
      want: { kind: 'admit', assignment: { name: 'x', decidedBy: 'operator:o' } },
    },
    {
      name: 'forgets an operator’s yes that ran out',
      onRecord: { join: join({ state: 'approved', decision }) },
      nowMs: 100,
      policy: approve,
      want: { kind: 'wait' },
    },
    {
      name: 'takes an operator’s no over everything',
      onRecord: { join: join({ state: 'refused', decision }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-refused' },
    },
    { name: 'knows a member again', onRecord: { node: node() }, policy: approve, want: { kind: 'member' } },
    {
      name: 'refuses a decommissioned key',
      onRecord: { node: node({ state: 'DECOMMISSIONED' }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-decommissioned' },
    },
    {
      name: 'refuses decommissioned hardware under a new key',
      onRecord: { machineHolder: node({ nodeId: 'node-2', state: 'DECOMMISSIONED' }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-decommissioned' },
    },
    {
      name: 'refuses a machine that was removed, under every policy',
      onRecord: { whyExcluded: 'it was removed as node n' },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-decommissioned', why: 'it was removed as node n' },
    },
    {
      name: 'refuses a machine that was removed, whatever an operator approved',
      onRecord: { whyExcluded: 'it was removed', join: join({ state: 'approved', decision }) },
      policy: approve,
      want: { kind: 'refuse', code: 'join-decommissioned' },
    },
    {
      name: 'keeps a member whose readmission has ended',
      onRecord: { whyExcluded: 'its readmission ended', node: node() },
      policy: inventory,
      want: { kind: 'member' },
    },
    {
      name: 'makes no control plane of an inventory that no owner signed',
      policy: controlPlane,
      want: { kind: 'wait', code: 'join-awaiting-owner', why: 'not signed' },
    },
    {
      name: 'makes a control plane of an inventory that an owner signed',
      onRecord: { missingSignatures: { inventory: undefined, approval: 'not granted' } },
      policy: controlPlane,
      want: { kind: 'admit', assignment: { roles: ['ConsensusMember', 'KubernetesController'] } },
    },
    {
      name: 'makes no control plane of an approval that no owner granted',
      onRecord: {
        join: join({ state: 'approved', decision: { ...decision, roles: ['ConsensusMember'] } }),
        missingSignatures: { inventory: undefined, approval: 'not granted' },
      },
      policy: approve,
      want: { kind: 'wait', code: 'join-awaiting-owner', why: 'not granted' },
    },
    {
      name: 'makes a control plane of an approval that an owner granted',
      onRecord: {
        join: join({ state: 'approved', decision: { ...decision, roles: ['ConsensusMember'] } }),
        missingSignatures: { inventory: 'not signed', approval: undefined },
      },
      policy: approve,
      want: { kind: 'admit', assignment: { roles: ['ConsensusMember'] } },
    },
    {
      name: 'refuses a second membership of one machine',
      onRecord: { machineHolder: node({ nodeId: 'node-2' }) },
      policy: inventory,
      want: { kind: 'refuse', code: 'join-identity-taken' },
    },
    {
      name: 'refuses an approved key on other hardware',
      onRecord: {
        join: join({ state: 'approved', decision, machine: { ...applicant.machine, identity: 'other' } }),
      },
      policy: approve,
      want: { kind: 'refuse', code: 'join-identity-changed' },
    },
    { name: 'bears five minutes', asks: offBy(-300_000), policy: inventory, want: { kind: 'admit' } },
    {
      name: 'and no more',
      asks: offBy(300_001),
      policy: inventory,
      want: { kind: 'refuse', code: 'join-clock-off', why: 'its clock is off by 300 s' },
    },
  ];
  test.each(cases)('$name', ({ asks, onRecord, policy, nowMs = 50, want }) => {
    expect(
      decideJoin({ ...applicant, ...asks }, { ...nobody, ...onRecord }, { policy, nowMs }),
    ).toMatchObject(want as object);
  });
});
