import { type FilePort, readText } from '../../internal/file/index.ts';
import type { Firmware } from './cloud-provider.ts';

const DIRECTORY = '/sys/class/dmi/id';
/** The kernel gives at most one page. */
const MAX_BYTES = 4096;

/** Reads the SMBIOS values by which clouds are recognized. Machines without SMBIOS have none. Sends nothing. */
export async function readFirmware(files: Pick<FilePort, 'read'>): Promise<Firmware> {
  const read = async (name: string): Promise<string> =>
    ((await readText(files, `${DIRECTORY}/${name}`, MAX_BYTES)) ?? '').trim();
  const [biosVersion, vendor, product, chassisAssetTag] = await Promise.all([
    read('bios_version'),
    read('sys_vendor'),
    read('product_name'),
    read('chassis_asset_tag'),
  ]);
  return { biosVersion, vendor, product, chassisAssetTag };
}
