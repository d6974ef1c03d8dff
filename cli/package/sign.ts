import type { CommandContext } from '../app/command.ts';
import { PackageError } from './errors.ts';

const GPG = ['gpg', '--batch', '--yes', '--armor'] as const;

/** `InRelease`: the text with the signature around it. The key may ask for its passphrase by gpg's own means. */
export function sign(context: CommandContext, key: string, text: string): Promise<string> {
  return gpg(context, ['--local-user', key, '--digest-algo', 'SHA512', '--clearsign'], text);
}

/** The public key, for machines that are to believe it. */
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
    if (stdout === '') throw new TypeError('gpg knows no such key');
    return stdout;
  } catch (cause) {
    signal.throwIfAborted();
    throw new PackageError('package-sign-failed', 'signing the repository', { cause });
  }
}
