import { z } from 'zod';
import { readJson, type FilePort } from '../../internal/file/index.ts';
import type { Floor } from '../../internal/ownerdocument/index.ts';
import type { ConfigurationFloors } from '../configuration/index.ts';
import type { KeyStore } from '../keyrotation/index.ts';
import type { ChecksummedFile } from '../membership/index.ts';

const MAX_BYTES = 64 * 1024;
const serial = z.object({ serial: z.int().min(0) }).optional();
const floorsShape = z.object({ policy: serial, operators: serial, owners: serial });
const controlPlaneShape = z.object({ nodeId: z.string(), grant: serial });

/** The highest serials of accepted owner documents, by the program that accepted them, kind and subject. */
export type Serials = Readonly<Record<string, number>>;

/** The files in which agent and signer store which documents they have accepted. */
export interface FloorFiles {
  readonly keys: Pick<KeyStore, 'loadFloors' | 'saveFloors'>;
  readonly configurationFloors: Pick<ChecksummedFile<ConfigurationFloors>, 'load' | 'save'>;
  readonly files: FilePort;
  /** Written by the signer (joinservice/signer/signer-memory.ts). A file that it could not read either counts as missing. */
  readonly signerDirectory: string;
}

/** Reads the serials of all documents that agent and signer have accepted. */
export async function readSerials(from: FloorFiles): Promise<Serials> {
  const { owners, keys } = await from.keys.loadFloors();
  const configuration = await from.configurationFloors.load();
  const floors: readonly (readonly [string, Pick<Floor, 'serial'> | undefined])[] = [
    ['keys/owners', owners],
    ['keys/keys', keys],
    ['configuration/owners', configuration?.owners],
    ['configuration/policy', configuration?.policy],
    ...(await signerFloors(from)),
  ];
  return Object.fromEntries(
    floors.flatMap(([name, floor]) => (floor === undefined ? [] : [[name, floor.serial]])),
  );
}

async function signerFloors({ files, signerDirectory }: FloorFiles) {
  const { data = {} } = floorsShape.safeParse(
    await readJson(files, `${signerDirectory}/floors.json`, MAX_BYTES),
  );
  const directory = `${signerDirectory}/control-planes`;
  const names = (await files.list(directory)).filter((name) => name.endsWith('.json'));
  const known = await Promise.all(names.map((name) => readJson(files, `${directory}/${name}`, MAX_BYTES)));
  const grants = known.flatMap((value) => controlPlaneShape.safeParse(value).data ?? []);
  return [
    ...Object.entries(data).map(([kind, floor]) => [`signer/${kind}`, floor] as const),
    ...grants.map(({ nodeId, grant }) => [`signer/grant/${nodeId}`, grant] as const),
  ];
}
