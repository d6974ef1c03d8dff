import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error catalog of the workspace: exit code, meaning and fix by code. */
export const workspaceErrors = defineErrors({
  'workspace-missing': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'The directory is not the workspace of a cluster: a required file is missing.',
    fix: 'Change to the workspace, or set it with --workspace. `cluster config generate` creates a new one.',
  },
  'workspace-key-invalid': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The owner key or the master secret of the workspace is damaged.',
    fix: 'Restore the file from a backup. It cannot be replaced once a cluster was created with it.',
  },
  'workspace-key-lost': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'The workspace belongs to a cluster, but the owner key or the master secret of that cluster is missing.',
    fix: 'Restore the file from a backup; the cluster does not accept a new key.',
  },
  'workspace-key-mode': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'A secret of the workspace is readable by other users of this machine.',
    fix: 'Run `chmod 600` on the file. If other users had access, treat the key as compromised.',
  },
  'workspace-identity-invalid': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'The identity file of an operator, or the grant that completes it, is damaged, belongs to a different operator, or was not written by `cluster operator`.',
    fix: 'Create an identity with `cluster operator key NAME`, have an owner run `cluster operator add`, and add the grant with `cluster operator accept`.',
  },
  'workspace-state-invalid': {
    fault: 'operator',
    exit: 'precondition',
    meaning:
      'state.json of the workspace is damaged. This program only replaces the whole file, so another program changed it.',
    fix: 'Restore state.json from a backup. Do not delete it while the cluster exists.',
  },
  'workspace-newer': {
    fault: 'operator',
    exit: 'precondition',
    meaning: 'The workspace was written by a newer version of this program.',
    fix: 'Use the program version that the error names, or a newer one.',
  },
  'workspace-locked': {
    fault: 'operator',
    exit: 'locked',
    retryable: true,
    meaning: 'Another process is using the workspace.',
    fix: 'Wait for the process that the error names. If that process no longer exists, delete the lock file.',
  },
});

/** An error about the workspace, with a code of the catalog. */
export class WorkspaceError extends errorClass(workspaceErrors) {}
