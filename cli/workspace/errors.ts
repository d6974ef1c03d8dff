import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const workspaceErrors = defineErrors({
  'workspace-missing': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The directory is not the workspace of a cluster: a file that makes it one is not there.',
    fix: 'Change to the workspace or name it with --workspace; a new one is made by `cluster config generate`.',
  },
  'workspace-key-invalid': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The owner key or the master secret of the workspace cannot be read as what it should be.',
    fix: 'Bring the file back from a backup. Nothing else can stand in for it once a cluster was made with it.',
  },
  'workspace-key-lost': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The workspace belongs to a cluster, but the owner key or the master secret of that cluster is gone.',
    fix: 'Bring the file back from a backup; a new key would not open the cluster.',
  },
  'workspace-key-mode': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'A secret of the workspace can be read by other users of this machine.',
    fix: 'Run chmod 600 on the file named in the message, and think about who may have read it.',
  },
  'workspace-identity-invalid': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The file of an operator’s identity, or of the grant that completes it, is damaged, of another operator, or not what `cluster operator` writes; the message names it.',
    fix: 'Make an identity with `cluster operator key NAME`, have an owner answer with `cluster operator add`, take the answer with `cluster operator accept`.',
  },
  'workspace-state-invalid': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'state.json of the workspace is damaged. It is only ever replaced whole, so something else wrote it.',
    fix: 'Bring state.json back from a backup. Do not delete it while the cluster exists.',
  },
  'workspace-newer': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The workspace was written by a newer version of this program.',
    fix: 'Use the version named in the message, or a newer one.',
  },
  'workspace-locked': {
    fault: 'operator',
    exit: 'locked',
    retryable: true,
    meaning: 'Another run of this program works on the workspace.',
    fix: 'Wait for the run named in the message. If you know that it is gone, delete what the message names.',
  },
});

export type WorkspaceErrorCode = keyof typeof workspaceErrors;

export class WorkspaceError extends errorClass(workspaceErrors) {}
