/** The ids of a process in its PID namespaces, outermost first, from /proc/PID/status (`NSpid:`). */
export function parseNamespacePids(status: string): readonly number[] {
  const line = lines(status).find((each) => each.startsWith('NSpid:'));
  return line === undefined ? [] : line.slice('NSpid:'.length).trim().split(/\s+/).map(Number);
}

/** Whether /proc/PID/status is of a process that has ended and waits for its parent. */
export function isZombie(status: string): boolean {
  return /^State:\s+[ZX]/m.test(status);
}

/** Whether the effective capabilities in /proc/PID/status contain capability number `bit`. */
export function hasCapability(status: string, bit: number): boolean {
  const hex = /^CapEff:\s+([0-9a-f]+)$/m.exec(status)?.[1];
  return hex !== undefined && ((BigInt(`0x${hex}`) >> BigInt(bit)) & 1n) === 1n;
}

/** The cgroup of a process in each hierarchy, from /proc/PID/cgroup: `9:name=systemd:/a` → ['name=systemd', '/a']. */
export function parseProcessCgroups(text: string): ReadonlyMap<string, string> {
  return new Map(
    lines(text).map((line) => {
      const [, controllers = '', ...path] = line.split(':');
      return [controllers, path.join(':')];
    }),
  );
}

function lines(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '');
}
