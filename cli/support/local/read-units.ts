import type { LocalFacts } from '../../../internal/doctor/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { CONTROL_PLANE_UNITS, NODE_UNITS } from '../node-units.ts';

const SYSTEMCTL_MS = 10_000;
const PROPERTIES = ['Id', 'LoadState', 'ActiveState', 'SubState', 'Result', 'NRestarts'];
/** Units that not every node of their role runs. */
const OPTIONAL: ReadonlySet<string> = new Set(['cluster-relay', 'cluster-exporter']);

type Unit = Extract<LocalFacts['units'], { ok: true }>['value'][number];

/** The state of the systemd units that this machine may run. @throws ExecError */
export async function readUnits(
  commands: CommandRunner,
  { isMember, isControlPlane }: Pick<LocalFacts, 'isMember' | 'isControlPlane'>,
  signal: AbortSignal,
): Promise<Unit[]> {
  const names = [...NODE_UNITS, ...CONTROL_PLANE_UNITS];
  const isOfControlPlane = new Set<string>(CONTROL_PLANE_UNITS);
  const { stdout } = await commands.run({
    argv: ['systemctl', 'show', `--property=${PROPERTIES.join()}`, ...names.map((name) => `${name}.service`)],
    timeoutMs: SYSTEMCTL_MS,
    signal,
  });
  const shown = new Map(stdout.split(/\n\n+/).map((block) => [propertyOf(block, 'Id'), block]));
  return names.map((name) => {
    const block = shown.get(`${name}.service`) ?? '';
    const isOfRole = !isOfControlPlane.has(name) || isControlPlane;
    return {
      name: `${name}.service`,
      // The agent runs before the machine is a node; it starts the other units.
      isNeeded: name === 'bootstrapper' || (isMember && isOfRole && !OPTIONAL.has(name)),
      load: propertyOf(block, 'LoadState') || 'not-found',
      active: propertyOf(block, 'ActiveState') || 'inactive',
      sub: propertyOf(block, 'SubState'),
      result: propertyOf(block, 'Result'),
      restarts: Number(propertyOf(block, 'NRestarts')) || 0,
    };
  });
}

function propertyOf(block: string, name: string): string {
  return new RegExp(`^${name}=(.*)$`, 'm').exec(block)?.[1] ?? '';
}
