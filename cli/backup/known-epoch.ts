import type { CommandContext } from '../app/command.ts';
import { readSeenEpoch, type Caller } from '../cluster/index.ts';
import { layoutOf, StateFile } from '../workspace/index.ts';

/** The highest epoch of the cluster that the caller knows of. */
export async function readKnownEpoch(
  { ports: { files }, paths }: CommandContext,
  { curatorsPath }: Pick<Caller, 'curatorsPath'>,
): Promise<number> {
  const { init } = (await StateFile.read(files, layoutOf(paths.workspace))).value;
  return Math.max(Number(init?.result?.epoch ?? 1), await readSeenEpoch(files, curatorsPath));
}
