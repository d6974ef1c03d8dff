import { parseManifest } from '../../internal/bundle/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import type { InitSpec } from '../initserver/index.ts';
import { runPreflight, type PreflightPorts } from '../preflight/index.ts';
import type { AgentPorts } from './agent-ports.ts';
import { PLACES } from './places.ts';

/** Room beside the bundle itself: unpacked images, etcd, logs. */
const HEADROOM_BYTES = 1024 ** 3;

/** The checks before anything changes. */
export interface MachineChecks {
  /** For what an owner asks of this machine. @throws PreflightError */
  forInit(spec: InitSpec): Promise<void>;
  /** Before this machine asks to be let in; what it will need of the bundle nobody has said yet. @throws PreflightError */
  forJoin(): Promise<void>;
}

/** One at a time: each binds the ports that it looks at, and two would find each other's. */
export function createMachineChecks(
  { files, machine, streams }: Pick<AgentPorts, 'files' | 'machine' | 'streams'>,
  provisioning: Pick<Provisioning, 'address'>,
  run: typeof runPreflight = runPreflight,
): MachineChecks {
  const probe: PreflightPorts = { files, machine, freeBytes: (folder) => streams.freeBytes(folder) };
  let before: Promise<unknown> = Promise.resolve();
  const check = (nodeName: string, needed: Readonly<Record<string, number>>): Promise<void> => {
    const mine = before.then(() => run(probe, { nodeName, wantedAddress: provisioning.address, needed }));
    before = mine.catch(() => undefined); // whoever asked is told
    return mine;
  };
  return {
    forInit: ({ nodeName, bundleManifest }) => {
      const { components } = parseManifest(Buffer.from(bundleManifest, 'utf8'));
      const bytesOf = (of: readonly { readonly sizeBytes: number }[]): number =>
        of.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      return check(nodeName, {
        [PLACES.state]: bytesOf(components) + HEADROOM_BYTES,
        // Images are kept there packed and unpacked, and unpacked they are four times as large.
        [PLACES.images]: 6 * bytesOf(components.filter(({ kind }) => kind === 'image')),
      });
    },
    forJoin: () =>
      check(machine.hostname(), { [PLACES.state]: HEADROOM_BYTES, [PLACES.images]: HEADROOM_BYTES }),
  };
}
