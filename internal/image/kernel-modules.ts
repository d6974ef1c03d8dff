import { join } from 'node:path';
import type { PackageContext } from './fetch-packages.ts';
import { kernelOf } from './unpack-packages.ts';

/**
 * Directories below `kernel` whose modules no server needs: sound, graphics (the console uses the frame buffer of the firmware), radio, cameras, sensors and
 * devices of laptops, and networks and file systems of other systems. They are half of all modules (207 of 391 MB), and would be in memory for as
 * long as the machine runs.
 */
const UNUSED = {
  sound: [''],
  drivers: [
    ...['accel', 'auxdisplay', 'bluetooth', 'comedi', 'firewire', 'gpu', 'greybus', 'iio', 'isdn'],
    ...['leds', 'media', 'memstick', 'mtd', 'nfc', 'parport', 'pcmcia', 'power', 'rapidio', 'rpmsg', 'siox'],
    ...['soundwire', 'staging', 'thunderbolt', 'video', 'w1'],
    ...['input/joystick', 'input/misc', 'input/mouse', 'input/tablet', 'input/touchscreen'],
    ...[
      'net/arcnet',
      'net/can',
      'net/fddi',
      'net/hamradio',
      'net/hippi',
      'net/ieee802154',
      'net/plip',
      'net/ppp',
    ],
    ...['net/slip', 'net/wan', 'net/wireless', 'net/wwan'],
    ...['platform/chrome', 'platform/surface', 'platform/x86'],
    ...['usb/atm', 'usb/gadget', 'usb/image', 'usb/misc', 'usb/serial'],
  ],
  net: [
    ...[
      '6lowpan',
      'appletalk',
      'atm',
      'ax25',
      'batman-adv',
      'bluetooth',
      'caif',
      'can',
      'dccp',
      'ieee802154',
      'lapb',
    ],
    ...[
      'mac80211',
      'mac802154',
      'netrom',
      'nfc',
      'phonet',
      'qrtr',
      'rds',
      'rfkill',
      'rose',
      'rxrpc',
      'wireless',
      'x25',
    ],
  ],
  fs: [
    ...[
      'adfs',
      'affs',
      'afs',
      'befs',
      'bfs',
      'coda',
      'ecryptfs',
      'efs',
      'f2fs',
      'freevxfs',
      'gfs2',
      'hfs',
      'hfsplus',
      'hpfs',
    ],
    ...[
      'jffs2',
      'jfs',
      'minix',
      'nilfs2',
      'ntfs',
      'ntfs3',
      'ocfs2',
      'omfs',
      'orangefs',
      'qnx4',
      'qnx6',
      'reiserfs',
      'romfs',
    ],
    ...['sysv', 'ubifs', 'ufs', 'zonefs'],
  ],
} as const;

/**
 * Removes the modules that no server needs from the unpacked package of the kernel. Modules that others need stay: `depmod` would name
 * a missing one only when it is loaded. Call it before `indexModules()`. @throws ImageError `image-tree`
 */
export async function removeUnusedModules(
  { ports }: Pick<PackageContext, 'ports'>,
  directory: string,
  packages: readonly string[],
): Promise<void> {
  const { name, release } = kernelOf(packages);
  const modules = join(directory, name, 'lib/modules', release, 'kernel');
  for (const [above, names] of Object.entries(UNUSED))
    for (const each of names) await ports.files.remove(join(modules, above, each));
}
