/** The images that a release of the tests names: identifier (`Agnhost`) → reference. */
export type ImageList = ReadonlyMap<string, string>;

/**
 * Reads `test/utils/image/manifest.go` of a Kubernetes module, the one list of images that its tests use.
 * @throws TypeError if the file has a syntax that this function does not know
 */
export function parseImageList(manifestGo: string): ImageList {
  const registries = new Map(
    [...manifestGo.matchAll(/^\t\t(\w+): +"([^"]+)",$/gm)].map(([, name = '', host = '']) => [
      name.toLowerCase(),
      host,
    ]),
  );
  const images = new Map<string, string>();
  const entries = manifestGo.matchAll(/^\tconfigs\[(\w+)\] = Config\{list\.(\w+), "([^"]+)", "([^"]+)"\}$/gm);
  for (const [, id = '', registry = '', name = '', version = ''] of entries) {
    const host = registries.get(registry.toLowerCase());
    if (host === undefined) throw new TypeError(`image ${id}: unknown registry ${registry}`);
    images.set(id, `${host}/${name}:${version}`);
  }
  if (images.size === 0) throw new TypeError('the list of test images has no images');
  return images;
}
