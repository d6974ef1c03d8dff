import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error catalog of the workspace: exit code, meaning and fix by code. */
export const workspaceErrors = defineErrors({
  'workspace-missing': fault.operator.usage(
    'The directory is not the workspace of a cluster: a required file is missing.',
    'Change to the workspace, or set it with --workspace or CLUSTER_WORKSPACE. `cluster config generate` creates a new workspace.',
  ),
  'workspace-key-invalid': fault.operator.precondition(
    'The owner key or the master secret of the workspace is damaged.',
    'Restore the file from a backup. The key cannot be replaced once a cluster was created with it.',
  ),
  'workspace-other-cluster': fault.operator.precondition(
    'The workspace has the keys of another cluster or owner. Nothing was changed.',
    'Use an empty directory: --workspace DIRECTORY.',
  ),
  'workspace-key-lost': fault.operator.precondition(
    'The workspace belongs to a cluster, but the owner key or the master secret of that cluster is missing.',
    'Restore the file from a backup; the cluster does not accept a new key.',
  ),
  'workspace-key-mode': fault.operator.precondition(
    'A secret of the workspace is readable by other users of this machine.',
    'Run `chmod 600` on the file. If other users had access, treat the key as compromised.',
  ),
  'workspace-passphrase-needed': fault.operator.precondition(
    'A key of the workspace is encrypted, or is to be encrypted, and there is no way to ask for the passphrase: no terminal (or --no-input, or --output json), and no --passphrase-fd. Nothing was changed.',
    'Run the command at a terminal, or give the passphrase on a file descriptor: `cluster --passphrase-fd 3 … 3< FILE`. `cluster config passphrase` takes a new passphrase with --new-passphrase-fd.',
  ),
  'workspace-passphrase-wrong': fault.operator.refused(
    'The passphrase does not open a file of the workspace, or the file was changed. Nothing was changed.',
    'Enter the passphrase that was set last. If a `cluster config passphrase` was interrupted, run it again with the same old and new passphrase. A lost passphrase cannot be recovered: restore the file from a backup.',
  ),
  'workspace-passphrase-unusable': fault.operator.usage(
    'The passphrase cannot be used: it is empty, too long or too short, is not a single line of text, or the two entries of a new passphrase differ. Nothing was changed.',
    'Use one line of at least 12 characters.',
  ),
  'workspace-passphrase-descriptor': fault.operator.usage(
    'The passphrase could not be read from the file descriptor. Nothing was changed.',
    'Redirect a pipe or a file to the descriptor, such as `3< FILE` for --passphrase-fd 3. A terminal is refused, because it would show the passphrase.',
  ),
  'workspace-not-encrypted': fault.operator.precondition(
    'The keys of the workspace exist and are not encrypted, and `cluster config generate` does not change existing files.',
    'Run `cluster config passphrase` to encrypt the keys of the workspace.',
  ),
  'workspace-identity-missing': fault.operator.usage(
    'The identity file of an operator does not exist.',
    'Check the path of --identity. `cluster operator key NAME` creates an identity.',
  ),
  'workspace-identity-invalid': fault.operator.precondition(
    'The identity file of an operator, or the grant that completes it, is damaged, belongs to a different operator, or was not written by `cluster operator`.',
    'Create an identity with `cluster operator key NAME`, have an owner run `cluster operator add`, and add the grant with `cluster operator accept`.',
  ),
  'workspace-state-invalid': fault.operator.precondition(
    'state.json of the workspace is damaged. This program only replaces the whole file, so another program changed it.',
    'Restore state.json from a backup. Do not delete it while the cluster exists.',
  ),
  'workspace-newer': fault.operator.precondition(
    'The workspace was written by a newer version of this program.',
    'Use the program version that the error names, or a newer version.',
  ),
  'workspace-locked': retryable.operator.locked(
    'Another process is using the workspace.',
    'Wait for the process that the error names. If that process no longer exists, delete the lock file.',
  ),
});

/** An error about the workspace, with a code of the catalog. */
export class WorkspaceError extends errorClass(workspaceErrors) {}
