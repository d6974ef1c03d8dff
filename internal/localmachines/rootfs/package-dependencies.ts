import type { HostPorts } from '../host/host-ports.ts';
import { output } from '../host/host-ports.ts';

/** The names of the packages that a Debian package depends on, without versions; of alternatives, the first one. */
export async function packageDependencies(
  host: HostPorts,
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
