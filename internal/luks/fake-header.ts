import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { Secret } from '../secret/index.ts';
import { headerMac } from './header-mac.ts';
import { LAYOUT } from './layout.ts';
import { parseLuksHeader } from './parse-header.ts';

/**
 * The two copies of a header that cryptsetup 2.6.1 has written with the options of bootstrapper/disk: two key slots, and a
 * token with the field `node`. The areas of the key slots are left out: the parser does not read them.
 */
const STATE_DISK =
  'H4sIAAAAAAACA+3bT2zbVBwH8KxlBxACIXHhNOTCNkRCbddx7MFG1zYsaZdQ8q9JoK0c5yVxndiun9P8o8cODQ6IAuPvhDYYIAQHDgg0BOMECCQEEggEAyFxnQS3CU1IPKdlhBWEJgED8f0cIvk9v/d+7/eecrD0O5idSZ98OzAU6BsPbNoeuEi0polh+Y/7hw+L9w/Lawc+PbP7hfz1C9pP6iNvWA+/l7jtm1uWh5yR+E0PnVq/8dCj787d/uzcri+/uPzoc2dH35k01uZeIreOLG67lsiqJhJZDoklXQlJshoOlZSwGIqEK4KolkoqCUuB/6H16SMfnZqf2vfisc+6jz+2s7xwuPDa5yd+3LfwvlQ8ffJbIQAAAAAAAADA9DiTdGjd9ii3p8fx/o/XcQi3h6s3TSpyQb9/kRpd1iRLQU6rXPCKwF6hnms4hM0g8Twf5GoarbHejU8C3Cob5BJtYJirtdggu1KhxGOPY2JEVvxZ+otwYljhJf+ZWLrbcTzDtlirRmio7dGQU9cMS5YuiIutYZYHI3NK7NmP/rexBDnDI67mz8miFfrRUq3uR5GJlzorFaHoUr6gdyKzxWYsk1RLXSUdUxrLVeIkYrluPdVZ8uy93CpbULgUuRJVXhHkS56syULDqVqaXJjV86lwOj4xQYqZRiNXkHJSM93ImiqfudmJUcvL+sliK3q2Sawtd0yvNylbI0Q9zSOhskHNjVg3L+Td7GU/0fNBboW4tL85IchZdrk/WMzVSgdyZv80KKk2iLX1FvezMphBQY5EIuJgDssdS2sYur/flUWvRTSTNfJ/nlNKdM92N9Mq8arsx1E2qoRuDeN8in93c78G7zfOX8RBKOpkd66bnY7dJSXiWquYnErNJO/M15NutFZanonOTk20o25LCieVvdwv0bFxzSUh1dhfVVPV6GgywXu62Rakeio6mW7nW507HJ3ocT4xNlacjm/cdt22KkbV39ESta3NTXOCKCrKwK7Ot8sRiVHYUPzFAgAAAAAAAAAAAAAAAAAAAAAAAAAA/GXSM9mD/0T9f/SpHb2M2nu6ee/I6vCJs2u9K0jnmg+96fHn89vHrnzlsu+u+tq8780P7jm6P/Py+qs3rDx4LPV98dwDCv3krXlth/j631v/P/6fPb8zE6NZTX1m6lAhdW7bD6efTB2/+omhj3vXfdXeuUve7R3BDQcAAAAAAAAf6v9R/4/6f9T/o/4fAAAAAAAAAAAAAAAAAAAAAAAAAADg3+9nW1uwOQCAAAA=';
/** The header of another volume: another UUID, one slot, no token. */
const OTHER_DISK =
  'H4sIAAAAAAACA+3bT2gUVxwH8CVFKrTUoge1lGqf0ou7OjOZfyuIxmQb3I3Jms0fi0qY2bz9O5nZ7JtkMxtysF5EqbQIHkRFBMGDKKjFIqKoWFrBPyh4KK3EYKtISEBFWvXgm7jqVhH1YKn6/RyWnfdvvr83O5eF19QeSxw5FqgJTFgSqPgg8JpYxpAU9cX9djoUF45/0fLJ4R9Wl0z92Pwtc8/JXY0bF+wRB37Z9PG+DcGOqbP16Y350+V1U2b++teBOaWjO6+tkeuGk/eOjo5NEytCkpnUQ7IaVkKmrkghTUmJUtg0w1SRA++h7f23yA7nVNfJM79dOjey7NDFsfv3hqWfyfmRLetbr87bHQAAAAAAAADgBkmeesxyXEYWDhLB/3C9AiULidWXZxIJ+v1dLFvmTaocJEbqmSEiH8LcYrZA+QqyIAhBkjFYhvc++kuADPFJRWpUTSsaJT7JSaUYdfllraSpur/KxE2IpOiC7F9TO1n0Cm7WsXmrQVlowGWhgmVkbVV+Jhe/R767OlnB5Nd++n9nCZKsS4uGvyZPK06kZYblp0gIEcmL1JYTubpcvRzuFNqbrGihPhJujWi6aUsrM31eQyzaHHNWLCJDQ/yOrpOn/jKD/Duj6R5qP7+JExVUFyuqmqZJovq03m7PNnqyST9bf5dbokaeNwovr5/RpOsUK1sgC2HVz9SdTVP2fIwn2/H0Ya/iA9ZUB680vPKG1bZZeW9BP3OVwoD5td7bl+hXmntZrCFsWVEtrirxltZI+3JF/YYtIo+T+SvnPMsq1UsdktnQ01xe2tagLvM6a0tp2hh17WjL8nCOxno7hUJR9zc6SJKOncqm/WpyzLErBRNRknS9qqIn7aomczqfircbAAAAAAAAAAAAAAAAAAAAAAAAAAAA3iWJWHvTf3H+f++uD7+Nf7ZtLD76e/3VtTNuuuOT92V+HJ9lba7bMbotdPyn+KQ9+6f0XL8x5/JHZ/8gZ28f7Bu/0nH/+z+/2lpz4k7nl2/2/P+St/b5Lb67av6MGu3Cp91/D5drpn4+8p1za33iwam86P1z4fChIH7hAAAAAAAA4MP5f5z/x/l/AAAAAAAAAAAAAAAAAAAAAAAAAAAAgP+/h8FnyY0AgAAA';

/** The share under which `fakeHeader()` has its MAC. */
export const NODE_SHARE = new Secret(new Uint8Array(32).fill(7));

/** The first 16 MiB of a disk with the header of cryptsetup. */
export function realHeader(which: 'state' | 'other' = 'state'): Buffer {
  const disk = Buffer.alloc(LAYOUT.dataOffset);
  gunzipSync(Buffer.from(which === 'state' ? STATE_DISK : OTHER_DISK, 'base64')).copy(disk);
  return disk;
}

/** The metadata of the first copy as text. */
export function jsonOf(disk: Buffer): string {
  const area = disk.subarray(LAYOUT.binaryBytes, LAYOUT.copyBytes);
  return area.toString('latin1', 0, area.indexOf(0));
}

/** Writes the metadata into the given copies, with matching checksums, as an attacker can. */
export function writeJson(disk: Buffer, json: string, copies: readonly (0 | 1)[] = [0, 1]): Buffer {
  for (const copy of copies) {
    const area = disk.subarray(copy * LAYOUT.copyBytes + LAYOUT.binaryBytes, (copy + 1) * LAYOUT.copyBytes);
    area.fill(0);
    area.write(json, 'latin1');
  }
  return repairChecksums(disk, copies);
}

/** Computes the checksums of changed copies again. */
export function repairChecksums(disk: Buffer, copies: readonly (0 | 1)[] = [0, 1]): Buffer {
  for (const copy of copies) {
    const bytes = disk.subarray(copy * LAYOUT.copyBytes, (copy + 1) * LAYOUT.copyBytes);
    bytes.fill(0, 448, 512);
    createHash('sha256').update(bytes).digest().copy(bytes, 448);
  }
  return disk;
}

/** The real header with its MAC under `NODE_SHARE` in the token. */
export function fakeHeader(): Buffer {
  const disk = realHeader();
  const mac = Buffer.from(headerMac(parseLuksHeader(disk), NODE_SHARE)).toString('base64');
  return writeJson(disk, jsonOf(disk).replace('"node":', `"mac":"${mac}","node":`));
}
