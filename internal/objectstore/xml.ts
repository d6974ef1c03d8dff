const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/**
 * The content of each element of this name. Elements do not nest in the answers of S3, so no tree is needed. Takes time in proportion
 * to the length, whatever the store sends.
 */
export function elementsOf(xml: string, name: string): readonly string[] {
  return xml
    .split(`<${name}>`)
    .slice(1)
    .map((rest) => rest.slice(0, Math.max(0, rest.indexOf(`</${name}>`))));
}

/** The text of the first element of this name; empty if there is none. */
export function textOf(xml: string, name: string): string {
  return (elementsOf(xml, name)[0] ?? '').replace(
    /&(?:#([0-9]{1,4})|([a-z]{2,4}));/g,
    (each, code, entity) =>
      code === undefined ? (ENTITIES[String(entity)] ?? each) : String.fromCharCode(Number(code)),
  );
}
