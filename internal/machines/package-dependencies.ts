import type { MachineHost } from './host.ts';
import { output } from './host.ts';

/** What a Debian package depends on: names, the first of alternatives, without versions. */
export async function packageDependencies(
  host: MachineHost,
  packagePath: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return parseDepends(await output(host, ['dpkg-deb', '--field', packagePath, 'Depends'], signal));
}

/** `libc6 (>= 2.28), systemd | elogind, dbus:any` (deb-control(5), Package relationships). */
export function parseDepends(text: string): readonly string[] {
  return text
    .split(',')
    .map((relation) => /^\s*([a-z0-9][a-z0-9+.-]*)/.exec(relation)?.[1] ?? '')
    .filter((name) => name !== '');
}
