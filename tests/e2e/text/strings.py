"""Strings of many scripts, the same for the same seed. Characters are those of Unicode 3.2 and a few newer ones: the libraries that are compared have
tables of different versions of Unicode."""
import random
import unicodedata

SCRIPTS = {
    "latin": (0x61, 0x7A), "latin-accents": (0xC0, 0x24F), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x45F), "armenian": (0x531, 0x587),
    "hebrew": (0x591, 0x5F4), "arabic": (0x60C, 0x6D3), "devanagari": (0x901, 0x970), "bengali": (0x981, 0x9FA), "tamil": (0xB82, 0xBF2), "telugu": (0xC01, 0xC6F),
    "thai": (0xE01, 0xE5B), "tibetan": (0xF00, 0xFCF), "georgian": (0x10A0, 0x10FB), "hangul-parts": (0x1100, 0x11F9), "ethiopic": (0x1200, 0x137C),
    "cherokee": (0x13A0, 0x13F4), "khmer": (0x1780, 0x17E9), "mongolian": (0x1800, 0x18A9), "latin-more": (0x1E00, 0x1EF9), "greek-more": (0x1F00, 0x1FFE),
    "punctuation": (0x2010, 0x2052), "letters-like": (0x2100, 0x214B), "numbers": (0x2153, 0x2183), "arrows": (0x2190, 0x23CE), "circles": (0x2460, 0x24FE),
    "boxes": (0x2500, 0x27BE), "braille": (0x2800, 0x28FF), "kana": (0x3001, 0x30FF), "bopomofo": (0x3105, 0x312C), "compatible": (0x3300, 0x33DD),
    "han": (0x4E00, 0x9FA5), "hangul": (0xAC00, 0xD7A3), "presentation": (0xFB00, 0xFDFB), "full-width": (0xFF01, 0xFFEE), "gothic": (0x10330, 0x1034A),
    "mathematics": (0x1D400, 0x1D7FF),
}
WHITE_SPACE = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
ODD = "\0\x01\x1b\x7f\x8f\xad\u0130\u0131\u017f\u1e9e\u03a3\u03c2\u0300\u0301\u0327\u0345\u200b\u200c\u200d\u200e\u2060\u2581\u180e\ufe0f\ufeff\ufffd\ue000\U000f0000\U0001f1e9"
RECLASSIFIED = (0x1885, 0x1886)  # letters once, marks since Unicode 9
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "❤️", "🏳️‍🌈", "1️⃣"]
WORDS = ("the The THE of and a to in is you that it he was for on are as with his they I at be this have from don't it's we'll I'm you've they'd HE'LL naïve "
         "return def class int x_1 std::vector<float> __init__ != == += -> => /* */ // https://example.com/a?b=c&d=%20 foo@bar.org").split()
SPECIAL = ("<|endoftext|> <|begin_of_text|> <|eot_id|> <|im_start|> <|im_end|> <s> </s> <unk> <pad> [INST] [/INST] <tool_call> </think> <mask> The Ärger <0x0A> <0x41> "
           "<begin> [CLS] [UNK] >>TITLE<<").split()


class Strings:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        assigned = lambda c: unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs") and c not in RECLASSIFIED
        self.characters = {name: [chr(c) for c in range(first, last + 1) if assigned(c)] for name, (first, last) in SCRIPTS.items()}
        self.all = [chr(c) for c in range(0x30000) if assigned(c)]
        self.parts = [(10, self.known_word), (8, self.script_words), (3, self.number), (4, self.space), (2, self.symbols), (1, self.any), (1, self.odd), (1, self.special),
                      (1, self.emoji)]
        self.weights = [weight for weight, _ in self.parts]

    def word(self, script):
        letters = self.characters[script]
        return "".join(self.chance.choices(letters, k=self.chance.randint(1, 9)))

    def known_word(self):
        return self.chance.choice(WORDS) + self.chance.choice([" ", " ", " ", "", ", ", ". ", "\n"])

    def script_words(self):
        script = self.chance.choice(list(SCRIPTS))
        return " ".join(self.word(script) for _ in range(self.chance.randint(1, 4)))

    def number(self):
        return str(self.chance.randrange(10 ** self.chance.randint(1, 12))) + self.chance.choice(["", " ", ".", ",5", "%"])

    def space(self):
        if self.chance.random() < 0.7:
            return self.chance.choice([" ", "\n", "\t", "\r\n"]) * self.chance.randint(1, 5)
        return "".join(self.chance.choices(WHITE_SPACE, k=self.chance.randint(1, 4)))

    def symbols(self):
        return "".join(self.chance.choices("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", k=self.chance.randint(1, 5)))

    def any(self):
        return "".join(self.chance.choices(self.all, k=self.chance.randint(1, 4)))

    def odd(self):
        return self.chance.choice("aé ") + self.chance.choice(ODD) + self.chance.choice(["", "e", " "])

    def special(self):
        return self.chance.choice(["", " ", "x"]) + self.chance.choice(SPECIAL) + self.chance.choice(["", " ", "y", "\n "])

    def emoji(self):
        return self.chance.choice(EMOJI)

    def string(self):
        parts = self.chance.choices(self.parts, weights=self.weights, k=min(int(2 * self.chance.paretovariate(1)), 40))
        return "".join(make() for _, make in parts)
