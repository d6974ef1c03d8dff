/** The processor products whose SNP roots are pinned. Siena and Bergamo use the root of Genoa. */
export type SnpProduct = 'Milan' | 'Genoa' | 'Turin';

/** All supported products. */
export const SNP_PRODUCTS: readonly SnpProduct[] = ['Milan', 'Genoa', 'Turin'];

interface ModelRange {
  readonly family: number;
  readonly from: number;
  readonly to: number;
  readonly product: SnpProduct;
}

/** CPUID family and model ranges (AMD processor programming references; report versions from 3 carry them). */
const MODELS: readonly ModelRange[] = [
  { family: 0x19, from: 0x00, to: 0x0f, product: 'Milan' },
  { family: 0x19, from: 0x10, to: 0x1f, product: 'Genoa' },
  { family: 0x19, from: 0xa0, to: 0xaf, product: 'Genoa' },
  { family: 0x1a, from: 0x00, to: 0x11, product: 'Turin' },
];

/** The product with this CPUID family and model; undefined for an unsupported one. */
export function productFromCpuid(family: number, model: number): SnpProduct | undefined {
  return MODELS.find((range) => range.family === family && model >= range.from && model <= range.to)?.product;
}

/** The product by its name in a certificate: `Milan-B0` in a VCEK, `Milan` in a VLEK. */
export function productFromName(name: string): SnpProduct | undefined {
  const [line] = name.split('-');
  if (line === 'Siena' || line === 'Bergamo') return 'Genoa';
  return SNP_PRODUCTS.find((product) => product === line);
}
