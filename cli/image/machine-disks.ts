import { bootPartitionFiles, createDisk, createUki } from '../../internal/image/index.ts';
import { parseProvisioning } from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { DiskWriter } from '../mini/index.ts';
import { findAgent, prepareParts } from './build-image.ts';
import { writeSparse } from './write-image.ts';

/** Size of the state partition. The file is sparse. */
const STATE_BYTES = 16 * 2 ** 30;

/**
 * Builds the image of `cluster image build` once, and returns a function that writes disks with it: the same bytes as `disk.raw`, each with
 * the provisioning file of its machine. Removes `work`, in which it unpacks packages. @throws ImageError, MiniError
 */
export async function buildMachineDisks(
  context: CommandContext,
  { agent: path, work }: { readonly agent: string | undefined; readonly work: string },
): Promise<DiskWriter> {
  const { files } = context.ports;
  const agent = await findAgent(context, path);
  await files.remove(work); // files of an interrupted run
  try {
    const { loader, ...parts } = await prepareParts(context, {
      agent,
      hardware: 'virtual',
      packages: undefined,
      work,
    });
    const uki = createUki(parts);
    return async (disk, provisioning) => {
      parseProvisioning(provisioning, disk);
      const content = { loader, uki, provisioning: Buffer.from(provisioning) };
      await writeSparse(context, disk, createDisk(bootPartitionFiles(content), STATE_BYTES));
    };
  } finally {
    await files.remove(work);
  }
}
