import type { CommandContext } from '../app/command.ts';
import { PackageError } from './errors.ts';

const GPG = ['gpg', '--batch', '--yes', '--armor'] as const;

/** Signs a text inline (`InRelease`). gpg itself asks for the passphrase of the key. */
export function sign(context: CommandContext, key: string, text: string): Promise<string> {
  return gpg(context, ['--local-user', key, '--digest-algo', 'SHA512', '--clearsign'], text);
}

/** The public key, for machines that use the repository. */
export function exportKey(context: CommandContext, key: string): Promise<string> {
  return gpg(context, ['--export', key]);
}

async function gpg(context: CommandContext, flags: readonly string[], input = ''): Promise<string> {
  const { ports, env, signal } = context;
  const kept = ['PATH', 'HOME', 'GNUPGHOME', 'GPG_TTY', 'XDG_RUNTIME_DIR', 'LANG'].flatMap((name) =>
    env[name] === undefined ? [] : [[name, env[name]] as const],
  );
  try {
    const argv = [...GPG, ...flags] as const;
    const { stdout } = await ports.commands.run({ argv, input, env: Object.fromEntries(kept), signal });
    if (stdout === '') throw new TypeError('gpg does not have the key');
    return stdout;
  } catch (cause) {
    signal.throwIfAborted();
    throw new PackageError('package-sign-failed', 'signing repository', { cause });
  }
}
