import type { DescMethod } from '@bufbuild/protobuf';
import type { OperatorRole } from '../../../internal/role/index.ts';

/** A change that an owner has to sign. No role alone permits it. */
interface SignedChange {
  readonly what: string;
  /** The content that the owner signs: the kind of an owner document (internal/ownerdocument), or another text. */
  readonly signs: string;
  /** The components that verify the signature before they act. */
  readonly verifiedBy: readonly ('curator' | 'join service' | 'signer' | 'agent')[];
  /** The test that fails if the signature is not verified, from the root of the repository. */
  readonly test: string;
}

/** The rule about the callers of one method. */
export interface AccessRule {
  /** The lowest role of a person who may call the method; undefined: only nodes may call it. */
  readonly lowestRole: OperatorRole | undefined;
  readonly nodesToo: boolean;
  /**
   * The caller needs no certificate of the cluster, only a key on record: callers without a valid certificate use the
   * method to get one.
   */
  readonly byKeyAlone?: true;
  /** The commands that call it; "agent" is the agent of a node. */
  readonly usedBy: string;
  readonly signed?: readonly SignedChange[];
}

const nodes = { lowestRole: undefined, nodesToo: true } as const;
const everybody = { lowestRole: 'viewer', nodesToo: true } as const;
const people = { lowestRole: 'viewer', nodesToo: false } as const;
const operators = { lowestRole: 'operator', nodesToo: false } as const;
const owners = { lowestRole: 'owner', nodesToo: false } as const;

const SIGNED_ROWS = 'joinservice/server/signed-rows.test.ts';
const SIGNER = 'joinservice/signer/compromised-joinservice.test.ts';
const byCurator = { verifiedBy: ['curator'], test: SIGNED_ROWS } as const;

/**
 * The rules for each method of each contract that curators serve: its callers, and what an owner has to sign in
 * addition. The authorization of calls uses this list, and `docs/operators.md` has it as a table (`node
 * .ci/operator-rights.ts`). A method that is not listed is closed to everybody.
 */
export const ACCESS_RULES: Readonly<Record<string, AccessRule>> = {
  'Curator.CheckHealth': { ...everybody, usedBy: 'agent' },
  'Curator.GetClusterInfo': { ...everybody, usedBy: '`status`, `kubeconfig`, most `node` commands' },
  'Curator.GetNode': { ...everybody, usedBy: '`node show` and all commands about one node, agent' },
  'Curator.ListNodes': { ...everybody, usedBy: '`node ls`, `status`' },
  'Curator.WatchNode': { ...everybody, usedBy: 'agent' },
  'Curator.WatchNodes': { ...everybody, usedBy: '–' },
  'Curator.UpdateNodeStatus': { ...nodes, usedBy: 'agent, about its own node' },
  'Curator.Heartbeat': { ...nodes, usedBy: 'agent, about its own node' },
  'Curator.SetNodeRoles': {
    ...operators,
    usedBy: '`node set-role`, `node remove`',
    signed: [
      {
        what: 'control-plane roles',
        signs: '`grant`, or `policy` with an inventory that lists the machine',
        verifiedBy: ['curator', 'signer'],
        test: SIGNED_ROWS,
      },
    ],
  },
  'Curator.SetNodeState': { ...operators, usedBy: '`node remove`' },
  'Curator.UpdateNodeLabels': { ...operators, usedBy: '`node label`' },
  'Curator.UpdateNodeTaints': { ...operators, usedBy: '`node taint`' },
  'Curator.DeleteNode': {
    ...operators,
    usedBy: '`node remove`, `node reset`',
    signed: [{ ...byCurator, what: 'a machine in the inventory', signs: '`policy` or `readmission`' }],
  },
  'Curator.GetConfiguration': { ...everybody, usedBy: '`config show`' },
  'Curator.UpdateConfiguration': {
    ...operators,
    usedBy: '`config apply`, `config edit`',
    signed: [
      {
        what: 'any change',
        signs: '`policy`',
        verifiedBy: ['curator', 'join service', 'signer'],
        test: SIGNED_ROWS,
      },
    ],
  },
  'Curator.GetInitResult': {
    ...owners,
    byKeyAlone: true,
    usedBy: '`init`, continued from another workspace',
  },
  'OperatorApi.ListJoins': { ...people, usedBy: '`node ls --joins`, `status`' },
  'OperatorApi.DecideJoin': {
    ...operators,
    usedBy: '`node approve`, `node refuse`',
    signed: [
      {
        what: 'approval as a control plane',
        signs: '`grant`',
        verifiedBy: ['curator', 'join service', 'signer'],
        test: SIGNED_ROWS,
      },
    ],
  },
  'OperatorApi.ListAudit': { ...people, usedBy: '`audit`' },
  'OperatorApi.GetTrace': { ...people, usedBy: '`explain`' },
  'OperatorApi.ListOperators': { ...people, usedBy: '`operator ls`' },
  'OperatorApi.PutOperator': {
    ...operators,
    usedBy: '`operator add`',
    signed: [
      {
        what: 'every operator, and a role raised or lowered',
        signs: '`operators`, and also `owners` if an owner changes',
        verifiedBy: ['curator', 'signer'],
        test: SIGNED_ROWS,
      },
    ],
  },
  'OperatorApi.RenewOperator': {
    ...people,
    byKeyAlone: true,
    usedBy: 'every command, before the certificate expires',
    signed: [
      {
        what: 'the key of the caller',
        signs: '`operators` or `owners`',
        verifiedBy: ['curator', 'signer'],
        test: SIGNER,
      },
    ],
  },
  'OperatorApi.GetClusterCa': {
    ...people,
    byKeyAlone: true,
    usedBy: 'every command, once the cluster CA was replaced',
  },
  'OperatorApi.GetOwnership': { ...people, usedBy: '`node cloud-init`' },
  'OperatorApi.PutOwnership': {
    ...owners,
    usedBy: '`init`, `operator remove`',
    signed: [
      {
        what: 'the cluster ownership',
        signs: 'cluster ID, CA and epoch',
        verifiedBy: ['curator', 'agent'],
        test: SIGNED_ROWS,
      },
    ],
  },
  'OperatorApi.IssueKubeconfig': {
    ...people,
    usedBy: '`kubeconfig --renew`',
    signed: [
      {
        what: 'the key of the caller, who signs the request',
        signs: '`operators` or `owners`',
        verifiedBy: ['signer'],
        test: 'joinservice/signer/kubeconfig-signer.test.ts',
      },
    ],
  },
  'OperatorApi.GetCollateral': { ...people, usedBy: '`attest collateral`' },
  'OperatorApi.ListBackups': {
    ...people,
    usedBy: '`backup ls`, `backup fetch`, `backup schedule show`, `doctor`',
  },
  'OperatorApi.PutBackupSchedule': {
    ...owners,
    usedBy: '`backup schedule set`, `backup schedule stop`',
    signed: [
      {
        what: 'every schedule',
        signs: 'the period, the control planes and the recovery keys',
        verifiedBy: ['agent'],
        test: 'bootstrapper/backup/schedule/verify-schedule.test.ts',
      },
    ],
  },
  'OperatorApi.PutCollateral': {
    ...operators,
    usedBy: '`attest collateral`; manufacturers sign its documents',
  },
  'OperatorApi.RotateKeys': {
    ...owners,
    usedBy: '`keys rotate`, `node remove --lost`',
    signed: [
      {
        what: 'the new keys, once a control plane has created them',
        signs: '`keys`',
        verifiedBy: ['agent'],
        test: 'bootstrapper/keyrotation/verify-keys.test.ts',
      },
    ],
  },
  'OperatorApi.GetKeys': { ...people, usedBy: '`keys show`, `status`, `sign`' },
  'OperatorApi.ListDocuments': { ...people, usedBy: '`sign`, `node ls --removed`' },
  'OperatorApi.PutDocuments': {
    ...operators,
    usedBy:
      '`sign`, `node readmit`, `keys rotate`, `node remove --lost`; an operator may submit `grant` and `readmission` only',
    signed: [{ ...byCurator, what: 'every submitted document', signs: 'the content of the document' }],
  },
  'OperatorApi.DeleteOperator': {
    ...operators,
    usedBy: '`operator remove`',
    signed: [
      { ...byCurator, what: 'every removal', signs: '`operators`, and also `owners` if an owner is removed' },
    ],
  },
  'Distribution.FetchBlob': { ...everybody, usedBy: 'agent' },
  'Distribution.WatchDirectory': { ...everybody, usedBy: 'agent' },
  'Distribution.FetchCollateral': { ...everybody, usedBy: 'agent' },
  'Distribution.FetchKeys': { ...everybody, usedBy: 'agent' },
  'Distribution.FetchConfiguration': { ...everybody, usedBy: 'agent' },
  'Distribution.FetchRemovals': { ...nodes, usedBy: 'agent' },
  'Distribution.ReportRemovals': { ...nodes, usedBy: 'agent of a worker that a restore kept' },
  'NodeStreams.OpenSession': { ...nodes, usedBy: 'agent' },
  'NodeStreams.StreamLogs': { ...people, usedBy: '`node logs`' },
  'NodeStreams.StreamAuditLog': { ...operators, usedBy: '`node logs --audit`' },
  'NodeStreams.GetEvidence': { ...people, usedBy: '`verify`' },
  'NodeStreams.GetDiskSeal': {
    ...operators,
    usedBy: '`attest approve`, `node reboot`, `node rotate-disk-keys`',
  },
  'NodeStreams.ApproveDisk': {
    ...owners,
    usedBy: '`attest approve`',
    signed: [
      {
        what: 'every approval',
        signs: 'the registers with which the state disk of this node opens',
        verifiedBy: ['agent'],
        test: 'bootstrapper/disk/disk.itest.ts',
      },
    ],
  },
  'NodeStreams.RotateDiskKeys': {
    ...owners,
    usedBy: '`node rotate-disk-keys`',
    signed: [
      {
        what: 'every rotation',
        signs: 'the sealed share that is replaced, and the recipients of the new recovery key',
        verifiedBy: ['agent'],
        test: 'bootstrapper/agent/statedisk/rotation-order.test.ts',
      },
    ],
  },
  'NodeStreams.GetMetrics': { ...people, usedBy: '`node metrics`' },
  'NodeStreams.ProbeRemoved': { ...operators, usedBy: '`node remove --lost`, `keys rotate`' },
  'NodeStreams.ChangePower': { ...operators, usedBy: '`node reboot`, `node shutdown`' },
  'NodeStreams.TakeBackup': {
    ...owners,
    usedBy: '`backup create`',
    signed: [
      {
        what: 'every backup',
        signs: 'the node that takes it and the recovery keys that open it',
        verifiedBy: ['agent'],
        test: 'bootstrapper/backup/take-backup.test.ts',
      },
    ],
  },
  'NodeStreams.FetchBackup': { ...owners, usedBy: '`backup fetch`' },
  'NodeStreams.ResetNode': {
    ...owners,
    usedBy: '`node reset`',
    signed: [
      {
        what: 'every reset',
        signs: 'the order for this node',
        verifiedBy: ['agent'],
        test: 'bootstrapper/reset/reset.test.ts',
      },
    ],
  },
};

/** The rule of a method; undefined if nobody may call it. */
export function accessRuleOf(method: DescMethod): AccessRule | undefined {
  const name = `${method.parent.name}.${method.name}`;
  return Object.hasOwn(ACCESS_RULES, name) ? ACCESS_RULES[name] : undefined;
}
