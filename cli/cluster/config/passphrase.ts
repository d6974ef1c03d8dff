import type { CommandContext } from '../../app/command.ts';
import { changePassphrase, layoutOf, secretsOf } from '../../workspace/index.ts';
import { openWorkspace } from '../open-workspace.ts';

/** Flags of `cluster config passphrase`. */
export interface ConfigPassphraseOptions {
  readonly remove: boolean;
  /** Descriptor with the new passphrase. */
  readonly descriptor: number | undefined;
}

/**
 * `cluster config passphrase`: sets, changes or removes the passphrase of the owner key, the master secret and the operator identity
 * of the workspace; with `--identity` of that identity only.
 * @throws WorkspaceError `workspace-missing`, `workspace-passphrase-…`
 */
export async function runConfigPassphrase(
  context: CommandContext,
  { remove, descriptor }: ConfigPassphraseOptions,
): Promise<void> {
  const { identity, workspace: root } = context.paths;
  const secrets =
    identity === undefined
      ? secretsOf(layoutOf(root))
      : [{ path: identity, kind: 'operator-identity' as const }];
  await using _workspace = await openWorkspace(context, 'cluster config passphrase');
  const changed = await changePassphrase(context, { secrets, remove, descriptor });
  context.host.result({ changed, encrypted: !remove }, () => {
    if (changed.length === 0) return 'No file is encrypted; nothing was changed.';
    const files = changed.map((path) => `  ${path}`).join('\n');
    if (remove) return `Decrypted:\n${files}`;
    return [
      `Encrypted:\n${files}`,
      '',
      'A lost passphrase cannot be recovered. Earlier backups are not encrypted with it.',
    ].join('\n');
  });
}
